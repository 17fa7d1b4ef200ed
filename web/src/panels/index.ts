// The panels whose script is loaded when one of them is first opened.
export { Architecture } from "./architecture";
export { AttributionPanel } from "./attribution";
export { BeamPanel } from "./beam";
export { ComparePanel } from "./compare";
export { Inside } from "./inside";
export { StudyPanel } from "./study";
export { Variants } from "./variants";
export { VectorsPanel } from "./vectors";
