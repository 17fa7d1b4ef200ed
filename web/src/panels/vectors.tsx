export function VectorsPanel() { return null; }
