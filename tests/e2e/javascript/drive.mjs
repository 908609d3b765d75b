// Drives the official AG-UI client: runs as told on stdin, what became of them on stdout.
//
// in:  { url, threadId?, state?, runs: [{ text?, leaveAfter? }] }
// out: { runs: [{ events, failure }], messages, state, warnings }

import { HttpAgent } from "@ag-ui/client";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const read = async () => {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
};

const order = await read();
const agent = new HttpAgent({
  url: order.url,
  threadId: order.threadId,
  initialState: order.state ?? {},
});

const runs = [];
for (const [number, { text, leaveAfter }] of order.runs.entries()) {
  const events = [];
  let failure = null;
  if (text !== undefined) {
    agent.messages.push({ id: `user-${number}`, role: "user", content: text });
  }
  const onEvent = ({ event }) => {
    events.push(event);
    if (event.type === leaveAfter) agent.abortRun();
  };
  try {
    await agent.runAgent({}, { onEvent });
  } catch (error) {
    failure = { message: error.message, status: error.status ?? null, body: error.payload ?? null };
  }
  runs.push({ events, failure });
}

const { messages, state, threadId } = agent;
process.stdout.write(JSON.stringify({ runs, messages, state, threadId, warnings }));
