export function BeamPanel() { return null; }
