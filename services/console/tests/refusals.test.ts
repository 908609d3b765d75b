import assert from "node:assert/strict";
import { test } from "node:test";

import { inWords } from "../src/chat/refusals";

test("a refusal is told in the gateway's words, and an answer that came second as such", () => {
  const refused = (error: object) => inWords(`HTTP 400: ${JSON.stringify({ error })}`);
  assert.equal(refused({ code: "too_large", message: "the message is too large" }), "the message is too large");
  assert.match(refused({ code: "task_ended", message: "task 1-a is over" }), /somebody has answered/);
  for (const other of ["HTTP 502: {", "HTTP 502: <html>", "Failed to fetch", 'HTTP 400: {"error": 1}']) assert.equal(inWords(other), other);
});
