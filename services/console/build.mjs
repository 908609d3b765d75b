/**
 * Builds the console into the gateway's package: `npm run build`.
 *
 * The files are committed, so that a clone, a wheel and an image have them without Node. A test
 * builds them again and compares. `node build.mjs FOLDER` builds elsewhere.
 */

import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const SITE = path.join(HERE, "../gateway/headrace_gateway/console/site");
/**
 * Leaves out what no page uses: the messages of zod in other languages, and AG-UI's binary encoding,
 * which the console does not accept. They are a fifth of the script.
 */
const unused = {
  name: "unused",
  setup(build) {
    const empty = "export default () => ({ localeError: () => undefined });";
    const kept = ["en.js", "index.js"];
    build.onLoad({ filter: /zod\/v4\/locales\/[\w-]+\.js$/ }, ({ path: file }) =>
      kept.includes(path.basename(file)) ? undefined : { contents: empty },
    );
    const binary = `
      export const AGUI_MEDIA_TYPE = "application/vnd.ag-ui.event+proto";
      export class AGUIUnknownEventTypeError extends Error {}
      export const decode = () => { throw new Error("the console reads no binary events"); };
    `;
    build.onLoad({ filter: /@ag-ui\/proto\/dist\/index\.m?js$/ }, () => ({ contents: binary }));
  },
};
const OPTIONS = {
  absWorkingDir: HERE,
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  alias: { "@headrace/client": "../../clients/javascript/src" },
  // The client's own imports are resolved here, because its folder has no packages.
  nodePaths: [path.join(HERE, "node_modules")],
  // The compiler's paths are for types; here they would find packages' CommonJS files.
  tsconfigRaw: {},
  plugins: [unused],
  logLevel: "warning",
};

async function buildSite(folder) {
  await rm(folder, { recursive: true, force: true });
  const built = await build({
    ...OPTIONS,
    entryPoints: { console: "src/main.tsx" },
    outdir: path.join(folder, "assets"),
    entryNames: "[name]-[hash]",
    minify: true,
    legalComments: "none",
    metafile: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const names = Object.keys(built.metafile.outputs).map((name) => path.basename(name));
  const [script, style] = [".js", ".css"].map((end) => names.find((name) => name.endsWith(end)));
  const page = await readFile(path.join(HERE, "src/index.html"), "utf8");
  const index = page.replace("SCRIPT", `assets/${script}`).replace("STYLE", `assets/${style}`);
  await writeFile(path.join(folder, "index.html"), index);
  await writeFile(path.join(folder, "licenses.txt"), await licenses(built.metafile));
}

/** Returns the licenses of the packages that the script contains, which they ask to be kept. */
async function licenses(metafile) {
  const found = Object.keys(metafile.inputs).map(
    (input) => input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1],
  );
  const texts = [];
  for (const name of [...new Set(found.filter(Boolean))].sort()) {
    const folder = path.join(HERE, "node_modules", name);
    const about = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).sort().find((one) => /^licen[cs]e/i.test(one));
    const text = file ? await readFile(path.join(folder, file), "utf8") : "";
    texts.push(`${name} ${about.version} (${about.license})\n\n${text.trim()}`.trim());
  }
  return `${texts.join("\n\n----\n\n")}\n`;
}

/** Builds each test of the logic into a script for `node --test`. */
async function buildTests(folder) {
  const tests = await readdir(path.join(HERE, "tests"));
  await mkdir(folder, { recursive: true });
  await build({
    ...OPTIONS,
    entryPoints: tests.map((name) => path.join(HERE, "tests", name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    platform: "node",
  });
}

const [first, second] = process.argv.slice(2);
await (first === "--tests"
  ? buildTests(second ?? path.join(HERE, "node_modules/.tests"))
  : buildSite(first ?? SITE));
