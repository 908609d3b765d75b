// Runs code of Hector's documents, as it stands, in pages that have what that code calls: a line of
// an order, a line of an answer.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { WebSocket } from "ws";

const { transformSync } = createRequire(new URL("../../../services/console/", import.meta.url))("esbuild");

// What a page has; each order begins with a new one.
let calls, logged, streams, states, effects, next;

// A browser's EventSource, as far as the documents use it; unlike a browser's it sends headers.
class EventSource {
  constructor(url, init = {}) {
    this.listeners = [];
    this.closed = false;
    streams.push(this.follow(url, init.headers ?? {}));
  }

  addEventListener(type, listener) {
    this.listeners.push([type, listener]);
  }

  close() {
    this.closed = true;
  }

  async follow(url, headers) {
    const answer = await fetch(url, { headers });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    await this.read(answer.body);
  }

  async read(body) {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const piece of body) {
      const frames = (rest + decoder.decode(piece, { stream: true })).split("\n\n");
      rest = frames.pop();
      frames.forEach((frame) => this.dispatch(frame));
    }
  }

  dispatch(frame) {
    const lines = frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line]);
    const fields = Object.fromEntries(lines.map(([name, line]) => [name, line.slice(name.length + 2)]));
    for (const [type, listener] of this.listeners)
      if (!this.closed && type === (fields.event ?? "message")) listener({ type, data: fields.data });
  }
}

// As much of React as a component needs to be drawn again until nothing changes.
const React = {
  useState(initial) {
    const at = next++;
    states[at] ??= { value: initial };
    const set = (change) => {
      states[at].value = typeof change === "function" ? change(states[at].value) : change;
    };
    return [states[at].value, set];
  },
  useEffect(effect) {
    effects.push(effect);
  },
  createElement: (type, properties, ...children) => ({ type, properties, children }),
};

const scopeOf = (recorded) => ({
  EventSource,
  WebSocket,
  console: { log: (...said) => logged.push(said) },
  require: () => ({ ...React, default: React }),
  module: {},
  ...Object.fromEntries(
    recorded.map((name) => [name, (...given) => calls.push([name, ...given]) && [name, ...given]]),
  ),
});

function loaded({ code, wanted, recorded }) {
  const scope = scopeOf(recorded);
  const { code: plain } = transformSync(code, { loader: "tsx", format: "cjs", target: "es2022" });
  const names = Object.keys(scope);
  const found = wanted.map((name) => `${name}: typeof ${name} === "undefined" ? null : ${name}`);
  return new Function(...names, `${plain}\nreturn { ${found.join(", ")} };`)(...Object.values(scope));
}

async function run(order) {
  [calls, logged, streams, states, effects, next] = [[], [], [], [], [], 0];
  const found = loaded(order);
  const result = {};
  for (const name of order.of_each ?? []) result[name] = order.parts.map((part) => found[name](part));
  for (const name of order.of_all ?? []) result[name] = found[name](order.parts);
  if (found.ws) {
    found.ws.onopen = () => found.ws.send(JSON.stringify(order.message));
    found.ws.addEventListener("message", ({ data }) => JSON.parse(data).end && found.ws.close());
    await new Promise((resolve) => found.ws.addEventListener("close", resolve));
  }
  if (found.AGUIStateManager) {
    const manager = new found.AGUIStateManager();
    manager.handleEvent("another", {});
    result.state = manager.getMessageState("nobody") ?? null;
  }
  if (found.AGUIChat) {
    found.AGUIChat();
    const [begin] = effects;
    begin();
    await Promise.all(streams);
    next = 0;
    result.drawn = found.AGUIChat();
  }
  await Promise.all(streams);
  return { calls, logged, result };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
