// A heatmap as a picture for a paper, and the whole recording as JSON.
import { css, inkOn, weightColours } from "./colours";
import { ownScale, recording, rootScale, sentenceNumber, threshold } from "./state";
import { MASKED, type View, highest } from "./view";
import { words } from "./words";

const CELL = 24;
const CHARACTER = 7; // pixels, about
const WIDE = 13; // of a Chinese one
const LONGEST = 40; // characters of a label
const LARGEST = 12000; // pixels of a picture on either side, which every browser can draw

interface Layout {
  left: number;
  top: number;
  width: number;
  height: number;
}

function layoutOf(view: View): Layout {
  const longest = (labels: { label: string }[]): number => Math.max(2 * CHARACTER, ...labels.map((one) => widthOf(cut(one.label))));
  const left = longest(view.rows) + 16;
  const top = longest(view.columns) + 36;
  return { left, top, width: left + view.columns.length * CELL + 16, height: top + view.rows.length * CELL + 16 };
}

function widthOf(text: string): number {
  return [...text].reduce((sum, letter) => sum + (letter >= "\u1100" ? WIDE : CHARACTER), 0);
}

function cut(label: string): string {
  const letters = [...label];
  return letters.length > LONGEST ? letters.slice(0, LONGEST - 1).join("") + "…" : label;
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
    `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="${ink}" stroke-opacity="0.35"/></pattern></defs>`,
    `<rect width="${width}" height="${height}" fill="${ground}"/>`,
    `<text x="8" y="18">${escaped(title)}</text>`,
  ];
  view.columns.forEach((one, n) => {
    const x = left + n * CELL + CELL / 2 + 4;
    parts.push(`<text transform="translate(${x} ${top - 6}) rotate(-90)">${escaped(cut(one.label))}</text>`);
  });
  view.rows.forEach((one, r) => {
    const y = top + r * CELL;
    parts.push(`<text x="${left - 6}" y="${y + CELL / 2 + 4}" text-anchor="end">${escaped(cut(one.label))}</text>`);
    view.columns.forEach((_, c) => {
      const value = view.values[r * view.columns.length + c]!;
      const fill = value === MASKED ? "url(#hatch)" : css(colourOf(value, high));
      const told = value === MASKED ? words.value.masked : value.toFixed(4);
      parts.push(`<rect x="${left + c * CELL}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}"><title>${told}</title></rect>`);
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
  const scale = Math.min(2, LARGEST / Math.max(width, height));
  canvas.width = scale * width;
  canvas.height = scale * height;
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

