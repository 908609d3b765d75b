// Drives CopilotKit's core, which its React client is made of: an order by a line of stdin, its results by one of stdout.
//
// in:  { runtimeUrl, transport?, agentId?, threadId?, tools?: { name: answer }, steps: [step] }
//      transport: "rest" or "single"; tools: what the page's own tools answer
//      step: { text } or { connect: true } (forgets everything, and comes back to the thread)
//            or { text, stopAt: event type }
// out: { agents, errors, steps: [{ events }], messages, state, threadId, called, warnings }

import { createInterface } from "node:readline";

// A page is what it wants to be in.
globalThis.window = globalThis;

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const { CopilotKitCore } = await import("@copilotkit/core");
const { z } = await import("zod");

const drive = async (order) => {
  const called = [];
  const tools = Object.entries(order.tools ?? {}).map(([name, answer]) => ({
    name,
    description: name,
    parameters: z.object({}).passthrough(),
    handler: async (args) => {
      called.push({ name, args });
      return answer;
    },
  }));
  const errors = [];
  const core = new CopilotKitCore({
    runtimeUrl: order.runtimeUrl,
    runtimeTransport: order.transport ?? "rest",
    tools,
  });
  const connected = new Promise((resolve) => {
    core.subscribe({
      onError: ({ code, error }) => errors.push({ code, message: error.message }),
      onRuntimeConnectionStatusChanged: ({ status }) => {
        if (status === "connected" || status === "error") resolve(status);
      },
    });
  });
  const status = await connected;

  const agent = core.getAgent(order.agentId ?? "default");
  const steps = [];
  if (agent && order.threadId) agent.threadId = order.threadId;
  for (const [number, { text, connect, stopAt }] of (order.steps ?? []).entries()) {
    const events = [];
    const watching = agent.subscribe({
      onEvent: ({ event }) => {
        events.push(event);
        if (event.type === stopAt) agent.abortRun();
      },
    });
    if (connect) {
      agent.setMessages([]);
      agent.setState({});
      await core.connectAgent({ agent });
    } else {
      agent.addMessage({ id: `user-${number}`, role: "user", content: text });
      await core.runAgent({ agent });
    }
    watching.unsubscribe();
    steps.push({ events });
  }

  const { messages, state, threadId } = agent ?? {};
  const agents = Object.keys(core.agents);
  return { status, agents, errors, steps, messages, state, threadId, called, warnings };
};

for await (const line of createInterface({ input: process.stdin })) {
  warnings.length = 0;
  process.stdout.write(`${JSON.stringify(await drive(JSON.parse(line)))}\n`);
}
process.exit(0);
