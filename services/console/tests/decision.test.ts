import assert from "node:assert/strict";
import { test } from "node:test";

import { approvalOf, argumentsOf, callsOf, edited, schemaOf, withHidden, withoutArguments, words } from "../src/approval/decision";

const CALL = { id: "call-1", name: "refund_order", args: '{"orderId": 7, "note": "broken", "items": ["a"]}' };

test("an approval of a call has two answers, and a third with other arguments", () => {
  const schema = { type: "object", properties: { approved: { type: "boolean" }, editedArgs: { type: "object" }, reason: { type: "string" } } };
  const approval = approvalOf({ id: "1", reason: "tool_call", toolCallId: "call-1", responseSchema: schema })!;
  assert.deepEqual(approval.approve(), { approved: true });
  assert.deepEqual(approval.approve({ orderId: 8 }), { approved: true, editedArgs: { orderId: 8 } });
  assert.deepEqual(approval.reject("too much"), { approved: false, reason: "too much" });
  assert.deepEqual(approval.reject(""), { approved: false });
  assert.equal(approval.canEdit, true);
});

test("what is asked is told without arguments, which have a form of their own", () => {
  assert.equal(withoutArguments('Approve refund_order({"order":"A 1"})?'), "Approve refund_order?");
  assert.equal(withoutArguments('Approve refund({"a":1})?\nApprove refund({"a":2})?\nMail bob?'), "Approve refund? (2 calls)\nMail bob?");
  assert.equal(withoutArguments('Approve refund({"order":"A'), "Approve refund?");
  assert.equal(withoutArguments("Approve the plan (all of it)?"), "Approve the plan (all of it)?");
});

test("a yes or no with a note is an approval that edits nothing", () => {
  const schema = { type: "object", properties: { approved: { type: "boolean" }, note: { type: "string" } } };
  const approval = approvalOf({ id: "1", reason: "input_required", responseSchema: schema })!;
  assert.deepEqual(approval.reject("later"), { approved: false, note: "later" });
  assert.deepEqual(approval.approve(undefined, "well done"), { approved: true, note: "well done" });
  assert.deepEqual(approval.approve(undefined, ""), { approved: true });
  assert.equal(approval.canEdit, false);
});

test("LangChain's review of one call is decided in its own form", () => {
  const value = { action_requests: [{ name: "refund", args: { id: 7 } }], review_configs: [{ allowed_decisions: ["approve", "edit", "reject"] }] };
  const interrupt = { id: "1", reason: "tool_call", responseSchema: { type: "object", properties: { decisions: { type: "array" } } }, metadata: { value } };
  const approval = approvalOf(interrupt)!;
  assert.deepEqual(approval.approve(), { decisions: [{ type: "approve" }] });
  assert.deepEqual(approval.approve({ id: 8 }), { decisions: [{ type: "edit", edited_action: { name: "refund", args: { id: 8 } } }] });
  assert.deepEqual(approval.reject("no"), { decisions: [{ type: "reject", message: "no" }] });
  assert.deepEqual(callsOf(interrupt, []), [{ id: "1 0", name: "refund", args: '{"id":7}' }]);
});

test("questions of other shapes are no approvals", () => {
  assert.equal(approvalOf({ id: "1", reason: "input_required" }), null);
  const both = { type: "object", properties: { approved: { type: "boolean" }, seats: { type: "integer" } } };
  assert.equal(approvalOf({ id: "1", reason: "input_required", responseSchema: both }), null);
});

test("arguments are labelled by the tool's schema, or by their names, and keep their types", () => {
  const schema = { properties: { orderId: { title: "Order", description: "Its number" } } };
  const [order, note, items] = argumentsOf(CALL.args, schema)!;
  assert.deepEqual([order!.label, order!.hint, note!.label], ["Order", "Its number", "Note"]);
  assert.equal(edited(order!, "8"), 8);
  assert.throws(() => edited(order!, "eight"), /Order: must be a number/);
  assert.equal(edited(note!, "fine"), "fine");
  assert.deepEqual(edited(items!, '["b"]'), ["b"]);
  assert.throws(() => edited(items!, "["), /Items: must be JSON/);
  assert.equal(argumentsOf("[1]"), null);
  assert.equal(words("maxItem_count"), "Max item count");
});

test("each of several calls has the labels of its own tool", () => {
  const edit = (args: object) => ({ properties: { type: { const: "edit" }, edited_action: { properties: { args } } } });
  const prefixItems = [{ oneOf: [{ properties: {} }, edit({ properties: { to: { title: "Payee" } } })] }, { oneOf: [{ properties: {} }] }];
  const interrupt = { id: "i", reason: "tool_call", responseSchema: { anyOf: [{}, { properties: { decisions: { prefixItems } } }] } };
  assert.equal(argumentsOf('{"to":"ada"}', schemaOf(interrupt, 0))![0]!.label, "Payee");
  assert.deepEqual(schemaOf(interrupt, 1), {});
  assert.deepEqual(schemaOf({ id: "i", reason: "x" }, 0), {});
});

test("characters that hide what is approved are shown by their numbers, and those of scripts stay", () => {
  assert.equal(withHidden("pay\u202e001\u202c to\u200bbob"), "pay⟨U+202E⟩001⟨U+202C⟩ to⟨U+200B⟩bob");
  for (const text of ["مرحبا", "می\u200cخواهم", "👩\u200d💻"]) assert.equal(withHidden(text), text);
});
