// Matrices as pixels: one pass over an ImageData, whatever the number of heads.
import { MASKED } from "./view";

export interface Tile {
  values: Float32Array;
  rows: number;
  columns: number;
  x: number;
  y: number;
  width: number;
  height: number;
  low: number;
  high: number;
  root: boolean;
  from?: number; // what is less is drawn as the lowest
}

export function paint(canvas: HTMLCanvasElement, width: number, height: number, tiles: Tile[], colours: Uint32Array): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (const tile of tiles) paintTile(pixels, width, tile, colours);
  context.putImageData(image, 0, 0);
}

function paintTile(pixels: Uint32Array, stride: number, tile: Tile, colours: Uint32Array): void {
  const { values, rows, columns, width, height, low } = tile;
  if (!rows || !columns) return;
  const scale = 1 / (tile.high - low || 1);
  const colourOf = (value: number): number => {
    if (Number.isNaN(value) || (value === MASKED && low >= 0)) return 0; // transparent: what is behind it shows
    if (tile.from && value < tile.from) return colours[0]!;
    const share = Math.min(Math.max((value - low) * scale, 0), 1);
    return colours[Math.round(255 * (tile.root ? Math.sqrt(share) : share))]!;
  };
  const pooled = rows > height || columns > width;
  for (let y = 0; y < height; y++) {
    const top = Math.floor((y * rows) / height);
    const bottom = Math.max(Math.floor(((y + 1) * rows) / height), top + 1);
    const start = (tile.y + y) * stride + tile.x;
    for (let x = 0; x < width; x++) {
      const left = Math.floor((x * columns) / width);
      const right = Math.max(Math.floor(((x + 1) * columns) / width), left + 1);
      let value = values[top * columns + left]!;
      if (pooled) {
        for (let r = top; r < bottom; r++) {
          for (let c = left; c < right; c++) value = Math.max(value, values[r * columns + c]!);
        }
      }
      pixels[start + x] = colourOf(value);
    }
  }
}
