/** An `HttpAgent` whose runs resume by themselves after a lost connection. */

import { HttpAgent, type HttpAgentConfig, type RunAgentInput } from "@ag-ui/client";

import { RequestRefused } from "./errors.js";
import { Gateways, type Connecting, type Retry } from "./gateways.js";
import { RunStream } from "./runs.js";
import { timestamp, type StartTime } from "./start_time.js";

export { ConnectionLost, EventsLost, RequestRefused } from "./errors.js";
export type { StartTime } from "./start_time.js";

/** How a `HeadraceAgent` is made. */
export interface HeadraceAgentConfig extends HttpAgentConfig {
  /** URLs of the same agent at other gateways, for when `url` does not answer. */
  otherUrls?: readonly string[];
  /** Resumes a run after this cursor; run it with its `threadId` and `runId`. */
  cursor?: string;
  /** The time to begin the next run at; see the agent's `startAt`. */
  startAt?: StartTime;
  retry?: Retry;
}

/** AG-UI's `HttpAgent`; a run whose connection breaks goes on after its last event. */
export class HeadraceAgent extends HttpAgent {
  /** The cursor of the last event that subscribers were given; empty before the first. */
  cursor: string;
  /** The A2A id of the task that the last run belongs to; empty before its first event. */
  task = "";
  /** The time to begin the next run at; unset once that has been sent. */
  startAt: StartTime | undefined;
  private resumesAfter: string;

  constructor(config: HeadraceAgentConfig) {
    const { otherUrls = [], cursor = "", startAt, retry = {}, ...others } = config;
    // A page that was served knows its URL, so a gateway that does not answer restarts.
    const connecting = { retry, waits: true, ...(others.fetch ? { fetch: others.fetch } : {}) };
    super({
      ...others,
      fetch: (url, init) =>
        resumingFetch([url, ...otherUrls], init, { ...connecting, signal: init.signal ?? null }),
    });
    this.cursor = this.resumesAfter = cursor;
    this.startAt = startAt;
    this.subscribe({
      onEvent: ({ event, agent }) => {
        const { cursor, task } = event.rawEvent ?? {};
        if (typeof cursor === "string") (agent as HeadraceAgent).cursor = cursor;
        if (typeof task === "string") (agent as HeadraceAgent).task = task;
      },
    });
  }

  protected override requestInit(input: RunAgentInput): RequestInit {
    const init = super.requestInit(this.startAt ? startingAt(this.startAt, input) : input);
    const headers = new Headers(init.headers);
    if (this.resumesAfter) headers.set("Last-Event-ID", this.resumesAfter);
    // Cursor and time are those of one run; the agent's next run is another one.
    this.resumesAfter = "";
    this.startAt = undefined;
    return { ...init, headers };
  }

  override clone(): HeadraceAgent {
    const copy = super.clone() as HeadraceAgent;
    copy.cursor = this.cursor;
    copy.task = this.task;
    copy.resumesAfter = this.resumesAfter;
    copy.startAt = this.startAt;
    return copy;
  }
}

function startingAt(time: StartTime, input: RunAgentInput): RunAgentInput {
  const props = input.forwardedProps ?? {};
  const headrace = { ...props.headrace, startAt: timestamp(time) };
  return { ...input, forwardedProps: { ...props, headrace } };
}

/** Fetches a run; the response's body goes on over as many connections as necessary. */
async function resumingFetch(
  urls: readonly string[],
  init: RequestInit,
  connecting: Connecting,
): Promise<Response> {
  const stream = new RunStream(new Gateways(urls, connecting), init);
  let response: Response;
  try {
    response = await stream.open();
  } catch (error) {
    // HttpAgent has its own words for a refusal.
    if (error instanceof RequestRefused && error.response.status >= 400) return error.response;
    throw error;
  }
  const { status, headers } = response;
  if (!headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
  return new Response(bodyOf(stream, response), { status, headers });
}

function bodyOf(stream: RunStream, response: Response): ReadableStream<Uint8Array> {
  const frames = stream.frames(response);
  const encoder = new TextEncoder();
  const task = response.headers.get("Headrace-Task") ?? undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await frames.next();
      if (done) return controller.close();
      // HttpAgent drops headers, the ids of frames, and fields of events that it does not know.
      const rawEvent = { ...value.data.rawEvent, cursor: value.cursor || undefined, task };
      const event = { ...value.data, rawEvent };
      controller.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
    },
    async cancel() {
      await frames.return(undefined);
    },
  });
  return quietlyCanceled(body);
}

/** HttpAgent cancels a body that has failed, which would end a Node process with that failure. */
function quietlyCanceled(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const getReader = () => {
    const reader = ReadableStream.prototype.getReader.call(body) as ReadableStreamDefaultReader;
    const cancel = reader.cancel.bind(reader);
    reader.cancel = (reason) => cancel(reason).catch(() => {});
    return reader;
  };
  return Object.assign(body, { getReader });
}
