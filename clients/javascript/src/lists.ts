import { Gateways } from "./gateways.js";
import { ResumingStream } from "./resuming.js";
import type { SseFrame } from "./sse.js";
import { headersOf, type Options } from "./tasks.js";

/** A change in a list of tasks. */
export interface ListChange {
  task: string;
  /** Missing if the task is gone. */
  contextId?: string;
  owner?: string;
  /** Such as `TASK_STATE_WORKING`; null: lists don't contain the task any more. */
  state: string | null;
  /** When its state changed, RFC 3339. */
  time?: string;
}

/** Which tasks are watched. */
export interface ListFilter {
  contextId?: string;
  /** Such as `TASK_STATE_WORKING`; several: tasks that come into any of them, or leave it. */
  status?: string | readonly string[];
  /** For the list of all agents: only the caller's tasks, also for operators. */
  own?: boolean;
  /** For operators: only this owner's tasks. */
  owner?: string;
}

/**
 * Yields the changes in a list of tasks, without end; null: ask for the list now, because the
 * changes begin here, or some may be missing.
 *
 * @param url An agent, such as `https://example.com/v1/agents/shop`, or the same agent at several
 *   gateways.
 */
export async function* watchTasks(
  url: string | readonly string[],
  filter: ListFilter = {},
  options: Options = {},
): AsyncGenerator<ListChange | null> {
  const stream = new ListStream(url, filter, options);
  for await (const { event, data } of stream.frames(await stream.open())) {
    yield event === "list" ? null : (data as ListChange);
  }
}

class ListStream extends ResumingStream {
  private readonly path: string;

  constructor(
    url: string | readonly string[],
    filter: ListFilter,
    private readonly options: Options,
  ) {
    const urls = (typeof url === "string" ? [url] : url).map((one) => one.replace(/\/+$/, ""));
    super(new Gateways(urls, options), "");
    const given = Object.entries(filter).flatMap(([name, value]) => [value].flat().map((one) => [name, String(one ?? "")]));
    const query = new URLSearchParams(given.filter(([, value]) => value));
    this.path = `/tasks:watch${query.size > 0 ? `?${query}` : ""}`;
  }

  protected connect(headers: Record<string, string>): Promise<Response> {
    const all = { ...headersOf(this.options), Accept: "text/event-stream", ...headers };
    return this.gateways.response(this.path, { headers: all });
  }

  protected kept(frames: SseFrame[]): SseFrame[] {
    return frames;
  }

  protected note(): void {}

  protected isOver(): boolean {
    return false;
  }
}
