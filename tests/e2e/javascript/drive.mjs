// Drives the official AG-UI client: runs as told by a line of stdin, what became of them on stdout.
//
// in:  one of these, or a list of them, which are driven at the same time:
//      { url, client?, transport?, threadId?, state?, messages?, stopUrl?, runs: [run] }
//      client: "1.0.0" (or an older one that is installed); transport: "sse", "binary" or "ws"
//      stopUrl: where runs are stopped; without it, under url
//      run: { text?, answer?, resume?, press?, leaveAfter?, stopAt?, openAt?, gate?,
//             …RunAgentInput's runId, tools, context, forwardedProps }
//      press: an action of A2UI, of the newest surface;
//      text: what the user says, a string or parts; answer: what the user interface's tools say;
//      resume: { status, payload? } for every interrupt that is open
//      leaveAfter, stopAt, openAt: the type of the event at which the client goes, asks for a stop,
//      or makes the file `gate`, for which an agent waits
// out: { runs: [{ events, failure, stopped }], messages, state, threadId, warnings }
//      stopped: what the stop was answered with

import { writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { Observable } from "rxjs";
import WebSocket from "ws";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const binary = (HttpAgent) =>
  class extends HttpAgent {
    requestInit(input) {
      const init = super.requestInit(input);
      return { ...init, headers: { ...init.headers, Accept: "application/vnd.ag-ui.event+proto" } };
    }
  };

// The client brings no WebSocket of its own: this one feeds the client's pipeline.
const socketed = (HttpAgent) =>
  class extends HttpAgent {
    run(input) {
      return new Observable((subscriber) => {
        const socket = new WebSocket(`${this.url.replace(/^http/, "ws")}/ws`);
        const fail = (error) => subscriber.error(error);
        socket.on("open", () => socket.send(JSON.stringify(input)));
        socket.on("error", fail);
        socket.on("close", (code, reason) => fail(new Error(`closed: ${code} ${reason}`)));
        socket.on("message", (data) => {
          const event = JSON.parse(data.toString("utf8"));
          subscriber.next(event);
          if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") subscriber.complete();
        });
        return () => socket.terminate();
      });
    }
  };

const stop = async (url, { threadId, runId }) => {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ threadId, runId });
  return (await fetch(`${url}/stop`, { method: "POST", headers, body })).json();
};

const AGENTS = { sse: (HttpAgent) => HttpAgent, binary, ws: socketed };

const drive = async (order) => {
  const version = order.client ?? "1.0.0";
  const { HttpAgent } = await import(
    version === "1.0.0" ? "@ag-ui/client" : `@ag-ui/client-${version}`
  );
  const Agent = AGENTS[order.transport ?? "sse"](HttpAgent);
  const agent = new Agent({
    url: order.url,
    threadId: order.threadId,
    initialState: order.state ?? {},
    initialMessages: order.messages ?? [],
  });

  const unanswered = () => {
    const answered = new Set(agent.messages.map((message) => message.toolCallId));
    const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
    return calls.map((call) => call.id).filter((id) => !answered.has(id));
  };

  const runs = [];
  let interrupts = [];
  for (const [number, run] of order.runs.entries()) {
    const { text, answer, resume, press, leaveAfter, stopAt, openAt, gate, ...parameters } = run;
    const events = [];
    let failure = null;
    let stopped = null;
    if (text !== undefined) {
      agent.messages.push({ id: `user-${number}`, role: "user", content: text });
    }
    if (answer !== undefined) {
      for (const id of unanswered()) {
        agent.messages.push({ id: `${id}-said`, role: "tool", toolCallId: id, content: answer });
      }
    }
    if (press !== undefined) {
      const { content } = agent.messages.findLast(({ activityType }) => activityType === "a2ui-surface");
      const { surfaceId } = content.a2ui_operations[0].createSurface;
      parameters.forwardedProps = { a2uiAction: { userAction: { ...press, surfaceId } } };
    }
    if (resume !== undefined) {
      parameters.resume = interrupts.map(({ id }) => ({ interruptId: id, ...resume }));
    }
    const onEvent = async ({ event, input }) => {
      // The client goes on with the very messages of a snapshot: what is kept here must not change.
      events.push(structuredClone(event));
      if (event.type === "RUN_FINISHED") interrupts = event.outcome?.interrupts ?? [];
      if (event.type === leaveAfter) agent.abortRun();
      if (event.type === openAt) await writeFile(gate, "");
      if (event.type === stopAt) stopped ??= await stop(order.stopUrl ?? order.url, input);
    };
    try {
      await agent.runAgent(parameters, { onEvent });
    } catch (error) {
      failure = { message: error.message, status: error.status ?? null, body: error.payload ?? null };
    }
    runs.push({ events, failure, stopped });
  }

  const { messages, state, threadId } = agent;
  return { runs, messages, state, threadId };
};

for await (const line of createInterface({ input: process.stdin })) {
  warnings.length = 0;
  const orders = JSON.parse(line);
  const driven = await Promise.all([orders].flat().map(drive));
  const held = driven.map((one) => ({ ...one, warnings }));
  process.stdout.write(`${JSON.stringify(Array.isArray(orders) ? held : held[0])}\n`);
}
