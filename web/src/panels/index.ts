// The panels whose script is loaded when one of them is first opened.
export { Architecture } from "./architecture";
export { AttributionPanel } from "./attribution";
export { BeamPanel } from "./beam";
export { ComparePanel } from "./compare";
export { Guesses } from "./guesses";
export { Influence } from "./influence";
export { Inside } from "./inside";
export { StudyPanel } from "./study";
export { TokenLines } from "./token-lines";
export { Variants } from "./variants";
export { VectorsPanel } from "./vectors";
