// Colours as tables of 256 entries. Weights: lightness changes in one direction, so that grey shows the same. On a dark
// page strong is light, on a light page dark: strong always stands out.
import { computed, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(prefersDark.matches);
prefersDark.addEventListener("change", (event) => (systemDark.value = event.matches));

function kept(): Theme {
  try {
    const theme = localStorage.getItem("theme");
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system"; // a page from a file may keep nothing
  }
}

export const theme = signal<Theme>(kept());
export const dark = computed(() => (theme.value === "system" ? systemDark.value : theme.value === "dark"));

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // it holds until the page is closed
  }
}

type Colour = [number, number, number];
const LIGHT: Colour[] = [[240, 244, 250], [158, 197, 228], [52, 122, 184], [12, 44, 96]];
const DARK: Colour[] = [[27, 34, 46], [28, 84, 122], [73, 164, 176], [240, 244, 190]];
const SIGNED_LIGHT: Colour[] = [[160, 30, 40], [236, 160, 140], [246, 246, 246], [140, 180, 224], [24, 84, 160]];
const SIGNED_DARK: Colour[] = [[250, 140, 130], [140, 56, 60], [34, 38, 46], [40, 84, 140], [140, 196, 255]];

// As 32 bits, in the order in which ImageData has them.
function table(stops: Colour[]): Uint32Array {
  const colours = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    const along = (n / 255) * (stops.length - 1);
    const from = Math.min(Math.floor(along), stops.length - 2);
    const [r, g, b] = stops[from]!.map((part, c) => Math.round(part + (along - from) * (stops[from + 1]![c]! - part)));
    colours[n] = (255 << 24) | (b! << 16) | (g! << 8) | r!;
  }
  return colours;
}

const tables = { light: table(LIGHT), dark: table(DARK), signedLight: table(SIGNED_LIGHT), signedDark: table(SIGNED_DARK) };

export const weightColours = computed(() => (dark.value ? tables.dark : tables.light));
export const signedColours = computed(() => (dark.value ? tables.signedDark : tables.signedLight));

export function css(colour: number): string {
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

// Black or white, whichever stands out more on this colour. There it is at least 4.5 : 1.
export function inkOn(colour: number): string {
  const [r, g, b] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255].map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b! > 0.179 ? "#000000" : "#ffffff";
}
