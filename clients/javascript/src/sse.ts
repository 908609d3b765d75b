/** One server-sent event with data. */
export interface SseFrame {
  /** The `id`, a cursor to continue after it; empty if it has none. */
  cursor: string;
  /** The name of the kind of event; empty if it has none. */
  event: string;
  data: Record<string, any>;
}

/** Decodes server-sent events from the bytes of a response. */
export class SseDecoder {
  /** Whether the gateway said that it ends the stream early (with the field `retry`). */
  isInterrupted = false;
  private readonly decoder = new TextDecoder();
  private rest = "";
  private isAfterCr = false;
  private cursor = "";
  private event = "";
  private data: string[] = [];

  /** Returns the frames that `piece` completes, without comments and frames without data. */
  feed(piece: Uint8Array): SseFrame[] {
    let text = this.decoder.decode(piece, { stream: true });
    if (this.isAfterCr && text.startsWith("\n")) text = text.slice(1);
    if (piece.length > 0) this.isAfterCr = text.endsWith("\r");
    const lines = (this.rest + text.replace(/\r\n?/g, "\n")).split("\n");
    this.rest = lines.pop() ?? "";
    const frames: SseFrame[] = [];
    for (const line of lines) this.read(line, frames);
    return frames;
  }

  private read(line: string, frames: SseFrame[]): void {
    if (line === "") {
      if (this.data.length > 0) {
        frames.push({ cursor: this.cursor, event: this.event, data: JSON.parse(this.data.join("\n")) });
      }
      this.cursor = this.event = "";
      this.data = [];
    } else if (line.startsWith("data:")) {
      this.data.push(line.slice(5));
    } else if (line.startsWith("id:")) {
      this.cursor = line.slice(3).trim();
    } else if (line.startsWith("event:")) {
      this.event = line.slice(6).trim();
    } else if (line.startsWith("retry:")) {
      this.isInterrupted = true;
    }
  }
}
