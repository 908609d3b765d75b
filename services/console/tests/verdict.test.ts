import assert from "node:assert/strict";
import { test } from "node:test";

import { eachCall, joined } from "../src/approval/decision";
import { inWords, verdictsOf } from "../src/approval/verdict";

const LANGCHAIN = [{ type: "edit", edited_action: { name: "refund", args: { id: 8 } } }, { type: "reject", message: "no" }, { type: "respond", message: "later" }];

test("an answer's decisions are told in words, whoever has asked", () => {
  const [edited, rejected, answered] = verdictsOf({ decisions: LANGCHAIN });
  assert.deepEqual(edited, { outcome: "Approved", args: { id: 8 }, said: [] });
  assert.deepEqual(rejected, { outcome: "Rejected", args: null, said: [["message", "no"]] });
  assert.equal(answered!.outcome, "Answered");
  assert.equal(inWords({ decisions: LANGCHAIN }), "Approved with changes, id: 8; Rejected, message: no; Answered, message: later");
  assert.equal(inWords({ approved: true, editedArgs: { amount: 4 } }), "Approved with changes, amount: 4");
  for (const other of ["yes", 5, null, ["a"], { size: "large" }]) assert.deepEqual(verdictsOf(other), []);
});

test("several calls that LangChain reviews by one question are decided each on its own", () => {
  const requests = [{ name: "refund", args: { id: 7 } }, { name: "mail", args: { to: "bob" } }];
  const configs = requests.map(({ name }) => ({ action_name: name, allowed_decisions: ["approve", "edit", "reject"] }));
  const interrupt = { id: "1", reason: "tool_call", metadata: { value: { action_requests: requests, review_configs: configs } } };
  const each = eachCall(interrupt);
  assert.deepEqual(each.map(({ id, message }) => [id, message]), [["1 0", "refund"], ["1 1", "mail"]]);
  const answer = (id: string, decision: object) => [id, { interruptId: id, status: "resolved" as const, payload: { decisions: [decision] } }] as const;
  const answers = new Map([answer("1 1", { type: "reject" }), answer("1 0", { type: "approve" })]);
  assert.deepEqual(joined(interrupt, answers), { interruptId: "1", status: "resolved", payload: { decisions: [{ type: "approve" }, { type: "reject" }] } });
  configs[1]!.allowed_decisions = ["respond"];
  assert.deepEqual(eachCall(interrupt), [interrupt], "one that can't be rejected is a form's");
});
