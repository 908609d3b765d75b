// Drives AG-UI clients away from a run amid a message, and back to it elsewhere.
//
// in:  { url, other, text, after, form, gate }   after: pieces of text that it reads before it leaves
//      gate: a file that lets the run go on, made once it is back
//      form: "cursor" (it kept what it was told) or "join" (it kept nothing)
// out: { left, messages, state, events, failure, warnings }   left: what it held when it left

import { writeFileSync } from "node:fs";
import { json } from "node:stream/consumers";
import { HttpAgent } from "@ag-ui/client";
import { HeadraceAgent } from "@headrace/client/ag-ui";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const order = await json(process.stdin);
const first = new HeadraceAgent({ url: order.url });
first.messages.push({ id: "user", role: "user", content: order.text });
const runId = crypto.randomUUID();
let pieces = 0;
await first
  .runAgent(
    { runId },
    {
      onTextMessageContentEvent: () => {
        pieces += 1;
        if (pieces === order.after) first.abortRun();
      },
    },
  )
  .catch(() => {});
const left = structuredClone(first.messages);

const { threadId, cursor } = first;
const kept = { initialMessages: first.messages, initialState: first.state };
const second =
  order.form === "cursor"
    ? new HeadraceAgent({ url: order.other, threadId, cursor, ...kept })
    : new HttpAgent({ url: `${order.other}/attach`, threadId });
const events = [];
let failure = null;
try {
  const take = ({ event }) => {
    events.push(event);
    writeFileSync(order.gate, "");
  };
  await second.runAgent({ runId }, { onEvent: take });
} catch (error) {
  failure = error.message;
}
const { messages, state } = second;
process.stdout.write(JSON.stringify({ left, messages, state, events, failure, warnings, runId }));
