// Source to headway/serve/static: the same files from the same sources, so that a test can compare them.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../headway/serve/static");

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  entryPoints: { page: "style/page.css" },
  outdir: out,
  bundle: true,
  minify: true,
  logLevel: "warning",
});
for (const file of ["index.html", "example.json"]) await copyFile(join(here, file), join(out, file));
