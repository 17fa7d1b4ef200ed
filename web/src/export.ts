// A heatmap as a picture for a paper or a slide, which says by itself what it shows, and the whole recording as JSON.
import { css, inkOn, weightColours } from "./colours";
import { chosenModel, kind, ownScale, recording, rootScale, sentence, sentenceNumber, threshold } from "./state";
import { MASKED, type View, highest } from "./view";
import { words } from "./words";

const CELL = 24;
const CHARACTER = 7; // pixels, about
const WIDE = 13; // of a Chinese one
const LONGEST = 40; // characters of a label
const LARGEST = 12000; // pixels of a picture on either side, which every browser can draw
const NARROWEST = 440; // so that what stands below the heatmap has room
const LINE = 17;
const EDGE = 16;
const RAMP = 140; // the width of the legend's colours

interface Layout {
  left: number;
  top: number;
  width: number;
  height: number;
  bottom: number; // of the cells
  told: string[]; // the lines of the sentence below
}

function layoutOf(view: View, title: string): Layout {
  const longest = (labels: { label: string }[]): number => Math.max(2 * CHARACTER, ...labels.map((one) => widthOf(cut(one.label))));
  const left = longest(view.rows) + LINE + EDGE;
  const top = longest(view.columns) + 2 * LINE + EDGE + 8;
  const width = Math.max(left + view.columns.length * CELL + EDGE, NARROWEST, widthOf(title) + EDGE);
  const bottom = top + view.rows.length * CELL;
  const told = linesOf(sentenceOf(view, title), width - 2 * EDGE);
  return { left, top, width, height: bottom + 2 * LINE + told.length * LINE + EDGE + 12, bottom, told };
}

// What the picture shows, for whoever sees it alone.
function sentenceOf(view: View, title: string): string {
  const t = words.value.handOut;
  const made = recording.value!;
  const shown = sentence.value!;
  const parts = [t.shows(title, made.model || chosenModel.value, shown.text, shown.result === shown.text ? "" : shown.result), t.rowsShare[kind.value]];
  if (view.values.includes(MASKED)) parts.push(t.hatched);
  if (threshold.value) parts.push(t.hiddenBelow(threshold.value.toFixed(2)));
  return parts.join(t.joint);
}

// Chinese breaks anywhere, other languages between words.
function linesOf(text: string, width: number): string[] {
  const lines = [""];
  for (const part of text.match(/[\u1100-\uffff]|[^\s\u1100-\uffff]+\s*|\s+/gu) ?? []) {
    if (widthOf((lines.at(-1)! + part).trimEnd()) > width && lines.at(-1)) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines.map((line) => line.trim());
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
  const t = words.value;
  const { left, top, width, height, bottom, told } = layoutOf(view, title);
  const high = ownScale.value ? highest(view.values) : 1;
  const ground = css(weightColours.value[0]!);
  const ink = inkOn(weightColours.value[0]!);
  const axes = t.handOut.axes[kind.value];
  const middle = left + (view.columns.length * CELL) / 2;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="${ink}">`,
    `<title>${escaped(title)}</title>`,
    `<desc>${escaped(sentenceOf(view, title))}</desc>`,
    `<defs><linearGradient id="ramp">${stopsOf()}</linearGradient>`,
    `<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="${ink}" stroke-opacity="0.35"/></pattern></defs>`,
    `<rect width="${width}" height="${height}" fill="${ground}"/>`,
    `<text x="${EDGE}" y="20" font-weight="bold">${escaped(title)}</text>`,
    `<text x="${middle}" y="${20 + LINE + 4}" text-anchor="${view.columns.length < 6 ? "start" : "middle"}" font-style="italic">${escaped(axes.columns)}</text>`,
    `<text transform="translate(${LINE} ${top + (view.rows.length * CELL) / 2}) rotate(-90)" text-anchor="middle" font-style="italic">${escaped(axes.rows)}</text>`,
    `<g id="cells">`,
  ];
  const labels: string[] = [];
  view.columns.forEach((one, n) => {
    const x = left + n * CELL + CELL / 2 + 4;
    labels.push(`<text transform="translate(${x} ${top - 6}) rotate(-90)">${escaped(cut(one.label))}</text>`);
  });
  view.rows.forEach((one, r) => {
    const y = top + r * CELL;
    labels.push(`<text x="${left - 6}" y="${y + CELL / 2 + 4}" text-anchor="end">${escaped(cut(one.label))}</text>`);
    view.columns.forEach((_, c) => {
      const value = view.values[r * view.columns.length + c]!;
      const fill = value === MASKED ? "url(#hatch)" : css(colourOf(value, high));
      const reads = value === MASKED ? t.masked : value.toFixed(4);
      parts.push(`<rect x="${left + c * CELL}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}"><title>${reads}</title></rect>`);
    });
  });
  parts.push("</g>", ...labels, ...legendOf(left, bottom + 12, high, ink));
  told.forEach((line, n) => parts.push(`<text x="${EDGE}" y="${bottom + 12 + 2 * LINE + 8 + n * LINE}">${escaped(line)}</text>`));
  return parts.join("\n") + "\n</svg>\n";
}

function stopsOf(): string {
  return [0, 32, 64, 96, 128, 160, 192, 224, 255].map((n) => `<stop offset="${n / 255}" stop-color="${css(weightColours.value[n]!)}"/>`).join("");
}

// Which colour is which weight. Under a square root the middle of the colours is a quarter of the highest.
function legendOf(left: number, top: number, high: number, ink: string): string[] {
  const marks = [0, 0.5, 1].map((along) => ({ along, value: high * (rootScale.value ? along ** 2 : along) }));
  return [
    `<g id="legend"><path d="M${left} ${top}h${RAMP}v10h${-RAMP}z" fill="url(#ramp)" stroke="${ink}" stroke-opacity="0.4"/>`,
    ...marks.map(({ along, value }) => `<text x="${left + along * RAMP}" y="${top + 24}" text-anchor="middle">${Number(value.toFixed(2))}</text>`),
    `<text x="${left + RAMP + 12}" y="${top + 10}">${escaped(words.value.handOut.weightScale)}</text></g>`,
  ];
}

export async function pngOf(view: View, title: string): Promise<Blob> {
  const { width, height } = layoutOf(view, title);
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

