// Drives the store of CopilotKit's core behind its hook useThreads: an order on stdin, its results on stdout.
//
// in:  { runtimeUrl, agentId, rename, archive, restore, delete }: ids of threads; rename: [id, name]
// out: { lists: what the store holds after each step, errors, endpoints }

import { readFileSync } from "node:fs";

globalThis.window = globalThis;

const core = await import("@copilotkit/core");

const order = JSON.parse(readFileSync(0, "utf8"));
const { runtimeUrl, agentId } = order;

const client = new core.CopilotKitCore({ runtimeUrl, runtimeTransport: "rest" });
await new Promise((resolve) => {
  client.subscribe({
    onRuntimeConnectionStatusChanged: ({ status }) => status === "connected" && resolve(),
  });
});

const lists = [];
const opened = async (context) => {
  const store = core.ɵcreateThreadStore({ fetch: globalThis.fetch });
  store.start();
  store.setContext({ runtimeUrl, headers: {}, agentId, ...context });
  await new Promise((resolve) => {
    const look = () => (store.getState().isLoading ? setTimeout(look, 20) : resolve());
    setTimeout(look, 20);
  });
  return store;
};
const listed = async (context = {}) => {
  const store = await opened(context);
  const { threads, error, nextCursor } = store.getState();
  lists.push({ threads, error: error && error.message, more: Boolean(nextCursor) });
  store.stop();
};

await listed();
const store = await opened({});
await store.renameThread(...order.rename);
await store.archiveThread(order.archive);
await listed();
await listed({ includeArchived: true, limit: 1 });
await store.unarchiveThread(order.archive);
await store.deleteThread(order.delete);
await listed();
store.stop();

process.stdout.write(JSON.stringify({ lists, endpoints: client.threadEndpoints }));
process.exit(0);
