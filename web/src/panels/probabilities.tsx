export function Probabilities() { return null; }
