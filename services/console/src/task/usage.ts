import type { Json } from "../gateway";
import { partsOf, type LogRow } from "./timeline";

/** What the models of a task have used, as its log says; that of discarded attempts, too, which was paid. */
export class Usage {
  tokens = 0;
  cost = 0;

  /** Takes the log's next row. */
  take({ event }: LogRow): void {
    for (const { metadata, data } of partsOf(event)) {
      if (metadata?.["agui_event_type"] === "usage" && data) this.add(data);
    }
  }

  private add({ inputTokens = 0, outputTokens = 0, totalTokens, cost = 0 }: Json): void {
    this.tokens += totalTokens || inputTokens + outputTokens;
    this.cost += cost;
  }
}
