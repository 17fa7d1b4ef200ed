export function Inside() { return null; }
