import { fetchJson, putJson } from "../gateway";
import { Store } from "../store";

export interface Opinion {
  rating: "up" | "down" | null;
  comment: string;
}

const NONE: Opinion = { rating: null, comment: "" };

/** What the user thinks of one answer, as the task's log has it. */
export class Feedback extends Store {
  opinion = NONE;
  error = "";
  private isGiven = false;
  private readonly path: string;

  constructor(agent: string, task: string) {
    super();
    this.path = `v1/agents/${encodeURIComponent(agent)}/tasks/${encodeURIComponent(task)}/feedback`;
  }

  async load(): Promise<void> {
    try {
      const { feedback } = await fetchJson(this.path);
      // What the user has given meanwhile counts.
      if (!this.isGiven) this.show(feedback);
    } catch {
      // It is asked for again when it is given.
    }
  }

  /** Stores it in place of what was there; what the gateway refuses is taken back. */
  async give(opinion: Opinion): Promise<void> {
    const before = this.opinion;
    this.isGiven = true;
    this.error = "";
    this.show(opinion);
    try {
      this.show((await putJson(this.path, opinion))["feedback"]);
    } catch (refused) {
      this.error = (refused as Error).message;
      this.show(before);
    }
  }

  private show(opinion: Opinion | null): void {
    this.opinion = opinion ? { rating: opinion.rating, comment: opinion.comment } : NONE;
    this.changed();
  }
}
