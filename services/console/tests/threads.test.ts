import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, { location: { href: "http://gateway/console/" }, addEventListener: () => {}, sessionStorage: { getItem: () => null } });
const { briefly, wordsOf } = await import("../src/chat/threads");

test("a thread's title has no signs of Markdown, and what is no sign stays", () => {
  assert.equal(wordsOf("# Notes Some *text* with `code`"), "Notes Some text with code");
  assert.equal(wordsOf("refund #7 > 50 in C#"), "refund #7 50 in C#");
});

test("a time is as brief as a list has room for", () => {
  const now = Date.parse("2026-03-10T12:00:00Z");
  const ago = (seconds: number) => briefly(new Date(now - seconds * 1000).toISOString(), now);
  assert.deepEqual([0, 59, 60, 3_600, 86_399].map(ago), ["now", "now", "1 min", "1 h", "23 h"]);
});
