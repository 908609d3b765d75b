// Two agents in JavaScript. `npm install && node agents.mjs` serves them to a fleet that runs
// (`make run`); settings are those of the Python worker: HEADRACE_NATS_URL, HEADRACE_PREFIX, ….

import { setTimeout as pause } from "node:timers/promises";
import { reject, thinking, toolCall, toolResult } from "./headrace/encoder.mjs";
import { agent, serve } from "./headrace/worker.mjs";

const shout = agent({
  name: "shout",
  description: "Says what you say, louder; runs in JavaScript.",
  async *run(ctx) {
    yield thinking("They want to be heard.");
    yield toolCall("upper_case", { text: ctx.prompt }, "call-1");
    const louder = ctx.prompt.toUpperCase();
    yield toolResult("call-1", louder);
    for (const word of louder.split(/(?<= )/)) yield word;
  },
});

const countdown = agent({
  name: "countdown",
  description: "Counts down from N: `N [delay_ms]`, N from 1 to 10000; runs in JavaScript.",
  async *run(ctx) {
    const [from, delay = 0] = ctx.prompt.trim().split(/\s+/).map(Number);
    if (!(Number.isInteger(from) && from >= 1 && from <= 10_000 && delay >= 0)) {
      yield reject("the message must be `N [delay_ms]`, N from 1 to 10000");
      return;
    }
    for (let number = from; number >= 1; number -= 1) {
      yield `${number} `;
      // The signal is aborted when the task is canceled, which ends the pause at once.
      if (delay > 0) await pause(delay, undefined, { signal: ctx.signal });
    }
  },
});

await serve([shout, countdown]);
