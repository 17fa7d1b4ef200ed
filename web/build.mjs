// Source to headway/serve/static: the same files from the same sources, so that a test can compare them. The server's
// page loads a panel when it is opened; whole.js is all of it in one script, for pages that are saved as a file.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../headway/serve/static");
const common = { absWorkingDir: here, outdir: out, bundle: true, minify: true, charset: "utf8", legalComments: "none", logLevel: "warning" };
const script = { ...common, target: "es2022" };

await mkdir(out, { recursive: true });
for (const name of await readdir(out)) if (/^part-.*\.js$/u.test(name)) await rm(join(out, name));
const { metafile } = await build({
  ...script,
  entryPoints: { page: "src/main.tsx" },
  format: "esm",
  splitting: true,
  chunkNames: "part-[name]-[hash]",
  metafile: true,
});
await build({ ...script, entryPoints: { whole: "src/main.tsx" }, format: "iife" });
await build({ ...common, entryPoints: { page: "style/page.css" } });

// What page.js imports at once is asked for together with it.
const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1);
const [, page] = Object.entries(metafile.outputs).find(([path]) => nameOf(path) === "page.js");
const early = page.imports.filter((one) => one.kind === "import-statement").map((one) => nameOf(one.path)).sort();
const links = early.map((name) => `<link rel="modulepreload" href="static/${name}">\n`).join("");
const index = await readFile(join(here, "index.html"), "utf8");
await writeFile(join(out, "index.html"), index.replace("</head>", `${links}</head>`));
await copyFile(join(here, "example.json"), join(out, "example.json"));
