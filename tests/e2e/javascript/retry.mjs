// Drives the official AG-UI client as a page does whose gateway dies: it sends the same run again.
//
// in:  { url, other, text, sent, times }   sent: a file that is made once the request is on its way
//      times: how often it is sent again, at the same time, to `other`
// out: { threadId, runId, runs: [{ events, messages, failure }], warnings }
//      runs: first the one to `url`, which is cut off; warnings: of the others

import { writeFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

// Of a body that is cut off the client leaves a promise behind beside the one that it rejects.
process.on("unhandledRejection", (error) => {
  if (error.message !== "terminated") warnings.push(error.message);
});

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const order = JSON.parse(Buffer.concat(chunks).toString("utf8"));

const threadId = crypto.randomUUID();
const runId = crypto.randomUUID();

const send = async (url, onSent) => {
  const initialMessages = [{ id: "said", role: "user", content: order.text }];
  const noting = (to, init) => {
    const response = fetch(to, init);
    onSent();
    return response;
  };
  const agent = new HttpAgent({ url, threadId, initialMessages, fetch: noting });
  const events = [];
  let failure = null;
  try {
    await agent.runAgent({ runId }, { onEvent: ({ event }) => void events.push(event) });
  } catch (error) {
    failure = error.message;
  }
  return { events, messages: agent.messages, failure };
};

// Node's fetch may lose a connection that dies amid its beginning: its promise is never settled, and
// Node would end (13) once nothing else is left to wait for.
const lost = new Promise((resolve) => {
  process.once("beforeExit", () => resolve({ events: [], messages: [], failure: "never settled" }));
});
const sent = send(order.url, () => setImmediate(() => writeFileSync(order.sent, "")));
const first = await Promise.race([sent, lost]);
warnings.length = 0;
const again = Array.from({ length: order.times }, () => send(order.other, () => {}));
const runs = [first, ...(await Promise.all(again))];
process.stdout.write(JSON.stringify({ threadId, runId, runs, warnings }));
