export function Architecture() { return null; }
