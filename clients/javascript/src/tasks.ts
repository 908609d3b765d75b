import { Gateways, type Connecting } from "./gateways.js";
import { ResumingStream } from "./resuming.js";
import type { SseFrame } from "./sse.js";
import { timestamp, type StartTime } from "./start_time.js";

/** A2A's Message, without what the client fills in. */
export interface Message {
  parts: Record<string, unknown>[];
  messageId?: string;
  role?: string;
  /** The task that it continues, or answers. */
  taskId?: string;
  contextId?: string;
  [field: string]: unknown;
}

/** How a task's stream is read. */
export interface Options extends Connecting {
  /** A bearer token, or a function that returns the current one. */
  token?: string | (() => string);
}

/** How a message is sent, and its task's stream read. */
export interface SendOptions extends Options {
  /** The time to begin the run at, RFC 3339 with an offset from UTC, if it is a text. */
  startAt?: StartTime;
}

/** One event of a task. */
export interface TaskEvent {
  /** The A2A StreamResponse: it has `task`, `statusUpdate`, `artifactUpdate` or `message`. */
  json: Record<string, any>;
  /** Resumes the stream after this event. */
  cursor: string;
  /** The task's id; empty for a Message without a task. */
  task: string;
  /** False if events before this one are lost, and `json.task` replaces them. */
  recovered: boolean;
}

const TERMINAL = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].map((name) => `TASK_STATE_${name}`);
const RUN_ENDED = [...TERMINAL, "TASK_STATE_INPUT_REQUIRED"];

/**
 * Sends a message and yields the task's events, each once, until the run ends or asks its user.
 *
 * @param url An agent, such as `https://example.com/v1/agents/shop`, or the same agent at several
 *   gateways. The message is taken once, even if it has to be sent again.
 * @param message A text, or A2A's Message.
 */
export function streamTask(
  url: string | readonly string[],
  message: string | Message,
  { startAt, ...options }: SendOptions = {},
): AsyncGenerator<TaskEvent> {
  const content = typeof message === "string" ? { parts: [{ text: message }] } : message;
  const sent = { messageId: crypto.randomUUID(), role: "ROLE_USER", ...content };
  const metadata = startAt ? { "headrace.startAt": timestamp(startAt) } : {};
  const body = { message: sent, metadata };
  return events(new TaskStream(url, options, body, content.taskId ?? "", ""));
}

/** Yields a task's events after `cursor`, each once, until the run ends or asks its user. */
export function resumeTask(
  url: string | readonly string[],
  task: string,
  cursor: string,
  options: Options = {},
): AsyncGenerator<TaskEvent> {
  return events(new TaskStream(url, options, null, task, cursor));
}

async function* events(stream: TaskStream): AsyncGenerator<TaskEvent> {
  for await (const { cursor, data } of stream.frames(await stream.open())) {
    if (stream.isKnown) continue;
    const recovered = bodyOf(data).metadata?.["headrace.recovered"] !== false;
    yield { json: data, cursor, task: stream.task, recovered };
  }
}

class TaskStream extends ResumingStream {
  /** Whether the last frame is the task as it was before the message that continues it. */
  isKnown = false;
  private readonly key: string = crypto.randomUUID();
  private readonly isFollowUp: boolean;
  private last: Record<string, any> | null = null;
  private state = "";
  private generation = 0;

  constructor(
    url: string | readonly string[],
    private readonly options: Options,
    private readonly body: object | null,
    public task: string,
    cursor: string,
  ) {
    const urls = (typeof url === "string" ? [url] : url).map((one) => one.replace(/\/+$/, ""));
    super(new Gateways(urls, options), cursor);
    this.isFollowUp = body !== null && task !== "";
  }

  protected async connect(headers: Record<string, string>): Promise<Response> {
    const all = { ...headersOf(this.options), ...headers };
    // Once there is a cursor, the gateway has the message.
    if (this.body === null || this.cursor) {
      return this.gateways.response(`${this.path}:subscribe`, { headers: all });
    }
    return this.gateways.response("/message:stream", {
      method: "POST",
      headers: { ...all, "Content-Type": "application/json", "Idempotency-Key": this.key },
      body: JSON.stringify(this.body),
    });
  }

  protected kept(frames: SseFrame[]): SseFrame[] {
    return frames;
  }

  protected note({ data }: SseFrame): void {
    const body = bodyOf(data);
    this.isKnown = this.isFollowUp && this.last === null && "task" in data;
    this.last = data;
    this.task = ("task" in data ? body.id : body.taskId) ?? this.task;
    this.generation = Number(body.metadata?.["headrace.generation"] ?? 0);
    if (!this.isKnown) this.state = body.status?.state ?? this.state;
  }

  protected isOver(): boolean {
    return RUN_ENDED.includes(this.state) || this.isMessage();
  }

  protected override async isOverAfterAll(): Promise<boolean> {
    if (TERMINAL.includes(this.state) || this.isMessage()) return true;
    if (!this.isOver()) return false;
    // Another message may wait behind the agent's question.
    const path = `${this.path}?historyLength=0`;
    const response = await this.gateways.response(path, { headers: headersOf(this.options) });
    const task = await response.json();
    return Number(task.metadata?.["headrace.generation"] ?? 0) <= this.generation;
  }

  private get path(): string {
    return `/tasks/${encodeURIComponent(this.task)}`;
  }

  private isMessage(): boolean {
    return this.last !== null && "message" in this.last;
  }
}

/** Returns the headers of every request of A2A. */
export function headersOf({ token }: Options): Record<string, string> {
  const current = typeof token === "function" ? token() : token;
  return { "A2A-Version": "1.0", ...(current ? { Authorization: `Bearer ${current}` } : {}) };
}

function bodyOf(data: Record<string, any>): Record<string, any> {
  return data.task ?? data.statusUpdate ?? data.artifactUpdate ?? data.message ?? {};
}
