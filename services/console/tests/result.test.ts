import assert from "node:assert/strict";
import { test } from "node:test";

import type { Result } from "../src/task/result";
import type { LogRow } from "../src/task/timeline";

Object.assign(globalThis, { location: { href: "http://gateway/console/" }, addEventListener: () => {}, sessionStorage: { getItem: () => null } });
const module = await import("../src/task/result");

function result(...events: object[]): Result {
  const folded = new module.Result();
  events.forEach((event, at) => {
    const asks = "task" in event || JSON.stringify(event).includes("ROLE_USER");
    const owner = at === 0 ? { owner: "ann" } : {};
    folded.take({ generation: at + 1, time: "", writer: { kind: "", id: "" }, run: 1, attempt: asks ? 0 : 1, state: "", type: "", event, ...owner } as LogRow);
  });
  return folded;
}

const asked = { task: { history: [{ role: "ROLE_USER", parts: [{ text: "hello" }, { raw: "aGk=", filename: "a.txt", mediaType: "text/plain" }] }] } };
const artifact = (artifactId: string, parts: object[], append = false) => ({ artifactUpdate: { artifact: { artifactId, parts }, append } });
const status = (state: string, text: string) => ({ statusUpdate: { status: { state: `TASK_STATE_${state}`, message: { parts: [{ text }] } } } });

test("a result has who asked what, with its files", () => {
  const { owner, said } = result(asked);
  assert.deepEqual([owner, said[0]!.text, said[0]!.files.map(({ name }) => name)], ["ann", "hello", ["a.txt"]]);
});

test("an answer is its texts; one that begins anew replaces what was there", () => {
  const one = result(asked, artifact("a", [{ text: "1 " }]), artifact("a", [{ text: "2" }], true), artifact("b", [{ text: "x" }]), artifact("a", [{ text: "new" }]));
  assert.equal(one.answer, "new\n\nx");
});

test("a text goes on in its line behind a checkpoint, and others are paragraphs", () => {
  const texts = ["1 2 ", "3", "4", " 5", "a\n", " b"].map((text, at) => artifact(`${at}`, [{ text }]));
  assert.equal(result(asked, ...texts).answer, "1 2 3\n\n4 5\n\na\n\n\n b");
});

test("files of an answer are its own, not what a child has said", () => {
  const of = (filename: string, metadata = {}) => artifact(filename, [{ raw: "aGk=", filename, metadata }]);
  assert.deepEqual(result(asked, of("own"), of("other", { agui_subagent_run_id: "c" })).files.map(({ name }) => name), ["own"]);
});

test("what the last status says is a question until it is answered", () => {
  const answer = { statusUpdate: { status: { state: "TASK_STATE_SUBMITTED", message: { role: "ROLE_USER", parts: [{ text: "yes" }] } } } };
  const question = status("INPUT_REQUIRED", "Go on?");
  assert.deepEqual([result(asked, question).status, result(asked, question, answer).status], ["Go on?", ""]);
  assert.deepEqual(result(asked, question, answer).said.map(({ text }) => text), ["hello", "yes"]);
});
