import { Gateways } from "./gateways.js";
import { SseDecoder, type SseFrame } from "./sse.js";

/** Reads frames in order, each once, over as many connections as necessary. */
export abstract class ResumingStream {
  /** The cursor that the open connection began after. */
  protected resumedAfter = "";

  constructor(
    protected readonly gateways: Gateways,
    protected cursor: string,
  ) {}

  /** Opens a connection that continues after the cursor. */
  protected abstract connect(headers: Record<string, string>): Promise<Response>;

  /**
   * Returns those of `frames`, which came together, that are part of the stream.
   *
   * `recovered`: false if events after the cursor are lost, and a snapshot replaces them.
   */
  protected abstract kept(frames: SseFrame[], recovered: boolean): SseFrame[];

  /** Takes note of a frame. */
  protected abstract note(frame: SseFrame): void;

  /** Returns whether the last frame was the last one of all. */
  protected abstract isOver(): boolean;

  /** Returns whether a connection broke after the end; asks a gateway if necessary. */
  protected async isOverAfterAll(): Promise<boolean> {
    return this.isOver();
  }

  /** Opens the next connection. */
  async open(): Promise<Response> {
    this.resumedAfter = this.cursor;
    return this.connect(this.cursor ? { "Last-Event-ID": this.cursor } : {});
  }

  /** Yields the frames of `response`, then those of later connections, to the end. */
  async *frames(response: Response): AsyncGenerator<SseFrame> {
    for (;;) {
      // The cursor is at the end of all there will be.
      if (response.status === 204) return;
      let reason: unknown = new Error("the stream closed before the run ended");
      const decoder = new SseDecoder();
      const recovered = response.headers.get("Headrace-Recovered") !== "false";
      const pieces = this.gateways.pieces(response);
      try {
        for (;;) {
          const piece = await pieces.next().catch((broken: unknown) => {
            reason = broken;
            return null;
          });
          if (piece === null) break;
          if (piece.done) {
            if (this.isOver() && !decoder.isInterrupted) return;
            break;
          }
          for (const frame of this.kept(decoder.feed(piece.value), recovered)) {
            this.gateways.succeeded();
            this.note(frame);
            this.cursor = frame.cursor || this.cursor;
            yield frame;
          }
        }
      } finally {
        await pieces.return(undefined);
      }
      if (await this.isOverAfterAll()) return;
      await this.gateways.failed(reason);
      response = await this.open();
    }
  }
}
