import assert from "node:assert/strict";
import { test } from "node:test";

import { declarationOf, FieldRefused, refusalOf, textOf, type Field } from "../src/declarations/fields";

const FIELDS: Field[] = [
  { name: "message", label: "", kind: "parts" },
  { name: "filter", label: "", kind: "json" },
  { name: "limit", label: "", kind: "number" },
  { name: "endAt", label: "", kind: "time" },
  { name: "cron", label: "", kind: "text" },
];

function stated(fields: Record<string, string>) {
  return declarationOf(FIELDS, (name) => fields[name] ?? "");
}

test("a declaration has what is stated, and not what is empty", () => {
  const found = stated({ message: " [1] hello ", filter: '{"body.total": 1}', limit: "0.5", cron: " " });
  assert.deepEqual(found, { message: "[1] hello", filter: { "body.total": 1 }, limit: 0.5 });
});

test("a declaration that is shown and stated again is the same", () => {
  const parts = [{ text: "count" }, { data: { a: [1] } }];
  const like = [{ text: ' [{"a": 1}]' }];
  for (const message of [parts, like, [{ text: "count" }], [{ data: 1 }]]) {
    const old: Record<string, unknown> = { message, filter: { "body.a": null }, limit: 3, endAt: "2030-01-31T09:00:05.000Z", cron: null };
    const shown = Object.fromEntries(FIELDS.map((field) => [field.name, textOf(field, old[field.name])]));
    const text = (message[0] as any).text;
    const same = message.length === 1 && text && message !== like ? text : message;
    assert.deepEqual(stated(shown), { message: same, filter: { "body.a": null }, limit: 3, endAt: old["endAt"] });
  }
});

test("what is no JSON is refused at its field", () => {
  assert.throws(() => stated({ filter: "{" }), (error) => error instanceof FieldRefused && error.field === "filter");
});

test("a refusal is about the field that it names, or about all", () => {
  assert.deepEqual(refusalOf(FIELDS, "cron: must be: due"), { field: "cron", rule: "must be: due" });
  assert.deepEqual(refusalOf(FIELDS, "filter.body.total.bool: must"), { field: "filter", rule: "must" });
  for (const message of ["the body: one of at and cron", "agent 'x' does not exist", "other: is no field"]) {
    assert.deepEqual(refusalOf(FIELDS, message), { field: "", rule: message });
  }
});
