// The agents of repeater.py in JavaScript: they do what their message says, step by step.

import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Retryable } from "../../../examples/javascript/headrace/attempt.mjs";
import * as say from "../../../examples/javascript/headrace/encoder.mjs";
import { agent, serve } from "../../../examples/javascript/headrace/worker.mjs";

const OUTPUT = {
  text: (text) => text,
  thinking: say.thinking,
  toolCall: ({ name, arguments: args, id }) => say.toolCall(name, args, id),
  toolResult: ({ id, content, error = "" }) => say.toolResult(id, content, error),
  file: ({ name, content, mediaType }) => say.file(name, content, mediaType),
  data: ({ value, name }) => say.data(value, name),
  status: say.status,
  inputRequired: ({ prompt, schema }) => say.inputRequired(prompt, schema),
  reject: say.reject,
  complete: say.complete,
  nonsense: () => Symbol("what is to be refused"),
};

async function* run(ctx) {
  const script = ctx.message.parts[0].data ?? { begin: [{ echo: "prompt" }] };
  for (const step of ctx.checkpointData ? script.resume : script.begin) {
    const [[kind, given]] = Object.entries(step);
    if (kind === "sleep") await pause(given, undefined, { signal: ctx.signal });
    else if (kind === "dawdle") await pause(ctx.attempt === 1 ? given : 0, undefined, { signal: ctx.signal });
    else if (kind === "await") while (!existsSync(given)) await pause(20, undefined, { signal: ctx.signal });
    else if (kind === "checkpoint") await ctx.checkpoint(given);
    else if (kind === "fail") throw new Error(given);
    else if (kind === "retry") throw new Retryable(given);
    else if (kind === "echo") yield given === "prompt" ? ctx.prompt : JSON.stringify(ctx.checkpointData);
    else yield OUTPUT[kind](given);
  }
}

await serve([agent({ name: "repeater", run }), agent({ name: "loner", run, followUps: "reject" })]);
