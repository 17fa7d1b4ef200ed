// Axes of charts: from numbers to places, and the numbers that stand beside them.

export interface Scale {
  low: number;
  high: number;
  start: number; // of the axis, in pixels
  end: number;
  isLog: boolean;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

const WIDE = 4; // an axis over so many times its lowest number is logarithmic

// spread: numbers that lie so far apart may be drawn by their logarithms.
export function scaleOf(values: number[], start: number, end: number, spread = true): Scale {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (spread && low > 0 && high > WIDE * low) return { low: low / 1.15, high: high * 1.15, start, end, isLog: true };
  const margin = 0.06 * (high - low) || Math.abs(high) * 0.05 || 1;
  return { low: low - margin, high: high + margin, start, end, isLog: false };
}

export function placeOn(scale: Scale, value: number): number {
  const along = scale.isLog ? Math.log : Number;
  const share = (along(value) - along(scale.low)) / (along(scale.high) - along(scale.low));
  return scale.start + share * (scale.end - scale.start);
}

// Round numbers within the range.
export function ticksOf(scale: Scale, most: number): number[] {
  const { low, high } = scale;
  if (scale.isLog) {
    const powers = range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)));
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const round = powers.flatMap((power) => factors.map((one) => one * 10 ** power));
      const found = round.filter((one) => low <= one && one <= high);
      if (found.length >= 2 && found.length <= most) return found;
      const every = Math.ceil(found.length / most);
      if (factors.length === 1 && every > 1) return found.filter((_, n) => n % every === 0);
    }
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10);
  return range(Math.ceil(low / step), Math.floor(high / step)).map((n) => Number((n * step).toPrecision(12)));
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(to - from + 1, 0) }, (_, n) => from + n);
}

function overlap(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function contains(outer: Box, inner: Box): boolean {
  const fits = inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;
  return fits && inner.x >= outer.x && inner.y >= outer.y;
}

// Where names of these widths can stand beside the first points without lying on another name or on any point; null:
// nowhere.
export function placeLabels(
  points: { x: number; y: number }[],
  widths: number[],
  frame: Box,
  radius: number,
): ({ x: number; y: number } | null)[] {
  const height = 15;
  const size = 2 * radius;
  const taken: Box[] = points.map(({ x, y }) => ({ x: x - radius, y: y - radius, width: size, height: size }));
  return widths.map((width, n) => {
    const { x, y } = points[n]!;
    const places = [
      { x: x + radius + 3, y: y - height / 2 },
      { x: x - radius - 3 - width, y: y - height / 2 },
      { x: x - width / 2, y: y - radius - height - 1 },
      { x: x - width / 2, y: y + radius + 1 },
    ];
    const free = places.find((one) => {
      const box = { ...one, width, height };
      return contains(frame, box) && !taken.some((other) => overlap(box, other));
    });
    if (!free) return null;
    taken.push({ ...free, width, height });
    return { x: free.x, y: free.y + 12 };
  });
}
