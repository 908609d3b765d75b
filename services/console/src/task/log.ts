import { RequestRefused } from "@headrace/client/errors.js";

import { follow, type Json } from "../gateway";
import { Store } from "../store";
import type { LogRow } from "./timeline";

/** A task's log: read from its beginning, and followed to its end. */
export class TaskLog extends Store {
  readonly rows: LogRow[] = [];
  error = "";
  /** Whether there is no such task, or none that the user may see. */
  isMissing = false;
  private readonly aborting = new AbortController();

  constructor(
    private readonly agent: string,
    private readonly task: string,
  ) {
    super();
  }

  async open(): Promise<void> {
    const path = `v1/agents/${encodeURIComponent(this.agent)}/tasks/${encodeURIComponent(this.task)}/log`;
    try {
      for await (const { data } of follow(path, this.aborting.signal)) {
        this.rows.push(data as Json as LogRow);
        this.changed();
      }
    } catch (error) {
      this.isMissing = error instanceof RequestRefused && error.response.status === 404;
      if (!this.aborting.signal.aborted) this.error = (error as Error).message;
    }
    this.changed();
  }

  close(): void {
    this.aborting.abort();
  }
}
