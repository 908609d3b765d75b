// Runs code of AG-UI's 0.x documents with the official client: a line of orders, a line of answers.
//
// in:  [{ code, url, given?, before?, message?, wanted?, values? }]
//      given: the configuration of the `agent` that the code uses but doesn't make
//      before: what that agent is told before, so that it holds something; message: and afterwards
//      wanted: names of the code's, to be returned; values: names that it uses, with what they are
// out: [{ told, inputs, messages, state, clients, logged, calls, found }]
//      told: all events; clients: the headers, ids and states of the agents that were made
//
// The documents subscribe to what `runAgent` returns, which no published client has: here it returns
// the official client's events so. Addresses are ours, and an agent without one gets it.

import { createInterface } from "node:readline";

import * as schemas from "@ag-ui/core/schemas";
import * as client from "@ag-ui/client";
import jsonPatch from "fast-json-patch";
import { Subject } from "rxjs";
import ts from "typescript";
import { z } from "zod/v4";

// The documents make one of the others themselves.
const { EventSchemas: _, ...known } = schemas;
const ADDRESS = /https:\/\/your-agent-endpoint\.com\/agent/g;

async function runs({ code, url, given, before, message, wanted = [], values = {} }) {
  const [told, inputs, logged, calls, made, running] = [[], [], [], [], [], []];

  class HttpAgent extends client.HttpAgent {
    constructor(config) {
      super({ url, ...config });
      made.push(this);
    }

    runAgent(parameters) {
      const events = new Subject();
      // An event is handed on once the client has applied it: as the next one comes, or at the end.
      const handOn = () => handed < told.length && events.next(told[handed++]);
      let handed = told.length;
      const onEvent = ({ event, input }) => {
        handOn();
        told.push(structuredClone(event));
        if (event.type === client.EventType.RUN_STARTED) inputs.push(structuredClone(input));
      };
      const run = super.runAgent(parameters, { onEvent });
      running.push(run.then(() => (handOn(), events.complete())));
      return events;
    }
  }

  const settled = async () => {
    for (let at = 0; at < running.length; at++) await running[at];
  };
  const say = async (agent, content) => {
    agent.messages.push({ id: crypto.randomUUID(), role: "user", content });
    agent.runAgent();
    await settled();
  };
  const agent = given && new HttpAgent(given);
  if (before) await say(agent, before);

  const scope = {
    ...known,
    HttpAgent,
    EventType: client.EventType,
    applyPatch: jsonPatch.applyPatch,
    console: { log: (...said) => logged.push(said), warn: (...said) => logged.push(said) },
    emitUpdate: (update) => calls.push(["emitUpdate", update]),
    emitNoUpdate: () => calls.push(["emitNoUpdate"]),
    require: () => ({ ...client, HttpAgent }),
    exports: {},
    z,
    ...values,
    ...(agent ? { agent } : {}),
  };
  const { outputText } = ts.transpileModule(code.replace(ADDRESS, url), {
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 },
  });
  const ending = `return { ${wanted.join(", ")} };`;
  const found = new Function(...Object.keys(scope), `${outputText}\n${ending}`)(...Object.values(scope));
  await settled();
  const last = made.at(-1);
  if (message) await say(last, message);
  return {
    told,
    inputs,
    logged,
    calls,
    found,
    messages: last?.messages,
    state: last?.state,
    clients: made.map(({ headers, agentId, threadId, description, state, messages }) => {
      return { headers, agentId, threadId, description, state, messages };
    }),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answers = await Promise.all(JSON.parse(line).map(runs));
  process.stdout.write(`${JSON.stringify(answers)}\n`);
}
