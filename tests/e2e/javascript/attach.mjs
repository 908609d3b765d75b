// Drives the official AG-UI client away from a run amid a message, and back to it elsewhere.
//
// in:  { url, other, text, after, form, gate }   after: pieces of text that it reads before it leaves
//      gate: a file that lets the run go on, made once it is back
//      form: "cursor" (it kept what it was told) or "join" (it kept nothing)
// out: { left, messages, state, events, failure, warnings }   left: what it held when it left

import { writeFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const order = JSON.parse(Buffer.concat(chunks).toString("utf8"));

// The client does not hand on the ids of frames, so they are noted on their way to it.
const ids = [];
const noting = async (url, init) => {
  const response = await fetch(url, init);
  let text = "";
  const note = (piece, controller) => {
    text += Buffer.from(piece).toString("latin1");
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) if (line.startsWith("id: ")) ids.push(line.slice(4));
    controller.enqueue(piece);
  };
  const told = response.body.pipeThrough(new TransformStream({ transform: note }));
  return new Response(told, { headers: response.headers, status: response.status });
};

const first = new HttpAgent({ url: order.url, fetch: noting });
first.messages.push({ id: "user", role: "user", content: order.text });
const runId = crypto.randomUUID();
let seen = 0;
let pieces = 0;
await first
  .runAgent(
    { runId },
    {
      onEvent: ({ event }) => {
        // Leaving makes the client tell itself of an end: that is no event of the stream's.
        if (pieces === order.after) return;
        seen += 1;
        if (event.type === "TEXT_MESSAGE_CONTENT") pieces += 1;
        if (pieces === order.after) first.abortRun();
      },
    },
  )
  .catch(() => {});
const left = structuredClone(first.messages);

const kept = { initialMessages: first.messages, initialState: first.state };
const again =
  order.form === "cursor"
    ? { url: order.other, ...kept, headers: { "Last-Event-ID": ids[seen - 1] } }
    : { url: `${order.other}/attach` };
const second = new HttpAgent({ ...again, threadId: first.threadId });
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
