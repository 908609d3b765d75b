import { EventsLost } from "./errors.js";
import type { Gateways } from "./gateways.js";
import { ResumingStream } from "./resuming.js";
import type { SseFrame } from "./sse.js";

/** The frames of one AG-UI run. */
export class RunStream extends ResumingStream {
  private readonly headers: Headers;
  /** Whether this client has received frames, which it must not receive again. */
  private hasBegun = false;
  private over = false;
  /** Whether the last frame was the end of an item. */
  private ends = false;
  /** Whether the gateway has closed items that the run goes on with. */
  private reopens = false;

  constructor(
    gateways: Gateways,
    private readonly init: RequestInit,
  ) {
    const headers = new Headers(init.headers);
    super(gateways, headers.get("Last-Event-ID") ?? "");
    this.headers = headers;
  }

  protected connect(added: Record<string, string>): Promise<Response> {
    // Gateways know a run by its ids: the request that started it does not start another one.
    const headers = { ...Object.fromEntries(this.headers), ...lowered(added) };
    return this.gateways.response("", { ...this.init, headers });
  }

  protected kept(frames: SseFrame[], recovered: boolean): SseFrame[] {
    if (this.hasBegun && !recovered) throw new EventsLost();
    const kept = frames.filter((frame) => !this.repeats(frame));
    const last = kept.at(-1)?.data;
    if (last?.type !== "RUN_ERROR" || last.code !== "disconnected") return kept;
    // The gateway has closed all open items. They go on where the run is resumed.
    kept.pop();
    while (kept.length > 0 && isEnd(kept[kept.length - 1]!)) kept.pop();
    this.reopens = this.ends && kept.length === 0;
    return kept;
  }

  /** Returns whether a resumed stream leads with `frame`: the run's start, or an open item's. */
  private repeats(frame: SseFrame): boolean {
    // Such frames have the cursor that the request had.
    if (!this.hasBegun || frame.cursor !== this.resumedAfter) return false;
    this.over = isOver(frame);
    return !(this.reopens && frame.data.type !== "RUN_STARTED");
  }

  protected note(frame: SseFrame): void {
    this.hasBegun = true;
    this.ends = isEnd(frame);
    this.over = isOver(frame);
  }

  protected isOver(): boolean {
    return this.over;
  }
}

function isOver({ data }: SseFrame): boolean {
  return data.type === "RUN_FINISHED" || data.type === "RUN_ERROR";
}

function isEnd({ data }: SseFrame): boolean {
  return data.type !== "RUN_FINISHED" && /_(END|FINISHED)$/.test(data.type);
}

function lowered(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
