// A heatmap as a picture for a paper, and the whole recording as JSON.
import { css, inkOn, weightColours } from "./colours";
import { ownScale, recording, rootScale, sentenceNumber, threshold } from "./state";
import { MASKED, type View, highest } from "./view";

const CELL = 24;
const CHARACTER = 7; // pixels, about

interface Layout {
  left: number;
  top: number;
  width: number;
  height: number;
}

function layoutOf(view: View): Layout {
  const longest = (labels: { label: string }[]): number => Math.max(2, ...labels.map((one) => one.label.length));
  const left = longest(view.rows) * CHARACTER + 16;
  const top = longest(view.columns) * CHARACTER + 36;
  return { left, top, width: left + view.columns.length * CELL + 16, height: top + view.rows.length * CELL + 16 };
}

function colourOf(value: number, high: number): number {
  const share = value < threshold.value ? 0 : Math.min(value / high, 1);
  return weightColours.value[Math.round(255 * (rootScale.value ? Math.sqrt(share) : share))]!;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/gu, (c) => `&#${c.codePointAt(0)};`);
}

export function svgOf(view: View, title: string): string {
  const { left, top, width, height } = layoutOf(view);
  const high = ownScale.value ? highest(view.values) : 1;
  const ground = css(weightColours.value[0]!);
  const ink = inkOn(weightColours.value[0]!);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="${ink}">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="${ground}"/>`,
    `<text x="8" y="18">${escaped(title)}</text>`,
  ];
  view.columns.forEach((one, n) => {
    const x = left + n * CELL + CELL / 2 + 4;
    parts.push(`<text transform="translate(${x} ${top - 6}) rotate(-90)">${escaped(one.label)}</text>`);
  });
  view.rows.forEach((one, r) => {
    const y = top + r * CELL;
    parts.push(`<text x="${left - 6}" y="${y + CELL / 2 + 4}" text-anchor="end">${escaped(one.label)}</text>`);
    view.columns.forEach((_, c) => {
      const value = view.values[r * view.columns.length + c]!;
      if (value === MASKED) return;
      const fill = css(colourOf(value, high));
      parts.push(`<rect x="${left + c * CELL}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}"><title>${value.toFixed(4)}</title></rect>`);
    });
  });
  return parts.join("\n") + "\n</svg>\n";
}

export async function pngOf(view: View, title: string): Promise<Blob> {
  const { width, height } = layoutOf(view);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgOf(view, title));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture")))));
}

// Tokens, and every weight of every head, of the sentence that is shown.
export function jsonOf(): string {
  const sentence = recording.value!.sentences[sentenceNumber.value]!;
  const weights: Record<string, number[][][]> = {};
  for (const [name, one] of sentence.weights) {
    const keys = name.startsWith("encoder") || name.includes(".cross.") ? sentence.pieces.length : sentence.rows;
    weights[name] = Array.from({ length: one.heads }, (_, h) =>
      Array.from({ length: one.queries }, (_, q) =>
        Array.from({ length: keys }, (_, k) => Number(one.at(h, q, k).toFixed(5))),
      ),
    );
  }
  const { text, pieces, ids, result, target, targetPieces, score } = sentence;
  return JSON.stringify({ text, source: { ids, pieces }, result, target: { ids: target, pieces: targetPieces }, score, weights }, null, 1);
}

