import { follow, type Json } from "./gateway";
import { Store } from "./store";

/** The fleet's state, live. */
export class FleetState extends Store {
  state: Json | null = null;
  error = "";
  private readonly aborting = new AbortController();

  async open(): Promise<void> {
    try {
      for await (const { event, data } of follow("v1/fleet", this.aborting.signal)) {
        this.state = event === "change" ? { ...this.state, ...data } : data;
        this.changed();
      }
    } catch (error) {
      if (!this.aborting.signal.aborted) this.error = (error as Error).message;
    }
    this.changed();
  }

  close(): void {
    this.aborting.abort();
  }
}
