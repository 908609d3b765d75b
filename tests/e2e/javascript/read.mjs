// Reads recorded streams with the official AG-UI client: bytes on stdin, what it holds on stdout.
//
// in:  [{ body, messages, state }]   (body: the response's text)
// out: [{ messages, state, failure, warnings }]

import { HttpAgent } from "@ag-ui/client";

const read = async () => {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
};

let warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const held = [];
for (const { body, messages, state } of await read()) {
  warnings = [];
  const headers = { "content-type": "text/event-stream" };
  const agent = new HttpAgent({
    url: "http://recorded.invalid",
    initialMessages: messages,
    initialState: state,
    fetch: async () => new Response(body, { headers }),
  });
  let failure = null;
  try {
    await agent.runAgent();
  } catch (error) {
    failure = error.message;
  }
  held.push({ messages: agent.messages, state: agent.state, failure, warnings });
}

process.stdout.write(JSON.stringify(held));
