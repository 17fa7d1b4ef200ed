// Numbers as people read them.

export function short(count: number): string {
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (count >= size) return `${(count / size).toFixed(count >= 100 * size ? 0 : 1)} ${letter}`;
  }
  return String(count);
}

export function weight(value: number): string {
  return value.toFixed(4);
}

export function signed(value: number, digits = 3): string {
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

// What is small keeps a digit that counts.
export function percent(share: number): string {
  const shown = 100 * share;
  return `${shown > 0 && shown < 0.1 ? shown.toPrecision(1) : shown.toFixed(1)} %`;
}

// A length in a style.
export function px(count: number): string {
  return `${count}px`;
}

// As small numbers below the line.
export function subscript(count: number): string {
  return [...String(count)].map((digit) => String.fromCodePoint(0x2080 + Number(digit))).join("");
}

// 834304 as 834,304.
export function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

// For the ticks of an axis: three digits at most.
export function brief(value: number): string {
  return Math.abs(value) >= 1000 ? short(value) : String(Number(value.toPrecision(3)));
}

// A number as the model has it: 5 digits that count, or as many as are asked for.
export function exact(value: number, digits = 5): string {
  const size = Math.abs(value);
  if (Number.isNaN(value)) return "NaN";
  const written = size === Infinity ? "∞" : size === 0 ? "0" : size >= 1e5 || size < 1e-4 ? size.toExponential(digits - 1) : size.toPrecision(digits);
  return (value < 0 ? "−" : "") + written.replace("e-", "e−").replace("e+", "e");
}
