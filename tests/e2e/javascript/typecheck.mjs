// Checks TypeScript modules, each by itself, with the compiler.
//
// in:  { name: text }
// out: { name: [complaint] }

import { text } from "node:stream/consumers";

import ts from "typescript";

const modules = JSON.parse(await text(process.stdin));
const options = {
  strict: true,
  noEmit: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  lib: ["lib.es2022.d.ts"],
};
const host = ts.createCompilerHost(options);
const { getSourceFile } = host;
host.getSourceFile = (name, ...more) =>
  name in modules
    ? ts.createSourceFile(name, modules[name], options.target)
    : getSourceFile(name, ...more);
host.fileExists = (name) => name in modules || ts.sys.fileExists(name);

const names = Object.keys(modules);
const found = Object.fromEntries(names.map((name) => [name, []]));
for (const one of ts.getPreEmitDiagnostics(ts.createProgram(names, options, host))) {
  const at = one.start === undefined ? "" : one.file.text.slice(one.start, one.start + 80);
  const complaint = ts.flattenDiagnosticMessageText(one.messageText, "\n");
  (found[one.file?.fileName] ??= []).push(`${complaint}: ${at}`);
}
process.stdout.write(JSON.stringify(found));
