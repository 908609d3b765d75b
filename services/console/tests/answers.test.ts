import assert from "node:assert/strict";
import { test } from "node:test";

import { answerOf, fieldsOf, valueOf } from "../src/chat/answers";

const PLAN = {
  type: "object",
  properties: {
    approved: { type: "boolean" },
    seats: { type: "integer" },
    size: { enum: ["S", 42, null] },
    note: { type: "string" },
    tags: { type: "array" },
  },
  required: ["approved"],
};

test("an object's properties are fields with controls of their types", () => {
  const fields = fieldsOf(PLAN);
  assert.deepEqual(fields.map(({ control }) => control), ["yes or no", "number", "select", "text", "json"]);
  assert.deepEqual(fields.map(({ isRequired }) => isRequired), [true, false, false, false, false]);
  const entered = ["true", "3", "1", "", '["a"]'];
  const values = fields.map((field, at) => valueOf(field, entered[at]!));
  assert.deepEqual(answerOf(fields, values), { approved: true, seats: 3, size: 42, tags: ["a"] });
});

test("an answer without a schema is a text, one of another type the value itself", () => {
  const [text] = fieldsOf(undefined);
  assert.equal(answerOf([text!], [valueOf(text!, "yes")]), "yes");
  const [yes] = fieldsOf({ type: "boolean" });
  assert.equal(answerOf([yes!], [valueOf(yes!, "false")]), false);
});

test("what is not JSON is refused where JSON is asked for", () => {
  const [field] = fieldsOf({ type: "array" });
  assert.throws(() => valueOf(field!, "[1"), /not JSON/);
});
