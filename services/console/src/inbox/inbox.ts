import { fetchJson, Refused } from "../gateway";
import { WAITING, type Row } from "../rows/query";
import { session } from "../session";
import { Store } from "../store";

/** Milliseconds between two requests. No stream: browsers keep few connections open for all tabs. */
const EVERY = 10_000;
const MOST = 200;

/** The questions that wait for the user, the oldest first; on every page, for their number. */
class Inbox extends Store {
  rows: Row[] | null = null;
  total = 0;
  error = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private aborting = new AbortController();
  private token = session.token;

  constructor() {
    super();
    session.follow(() => this.begin());
    document.addEventListener("visibilitychange", () => document.hidden || void this.load());
    void this.load();
  }

  /** Begins anew for another user; a session also changes when its token is refused. */
  private begin(): void {
    if (session.token === this.token) return;
    this.token = session.token;
    this.rows = null;
    this.total = 0;
    this.changed();
    void this.load();
  }

  /** Asks for the questions now, such as after an answer. */
  async load(): Promise<void> {
    this.aborting.abort();
    this.aborting = new AbortController();
    const { signal } = this.aborting;
    clearTimeout(this.timer);
    const query = new URLSearchParams([["own", "true"], ["order", "oldest"], ["limit", String(MOST)], ...WAITING.map((state) => ["status", state])]);
    try {
      const found = await fetchJson(`v1/tasks?${query}`, { signal });
      this.rows = found["tasks"];
      this.total = found["totalSize"];
      this.error = "";
    } catch (error) {
      if (signal.aborted) return;
      this.error = (error as Error).message;
      // Another token begins anew; the same one would be asked for again and again.
      if (error instanceof Refused && error.status === 401) return this.changed();
    }
    this.timer = setTimeout(() => void this.load(), EVERY);
    this.changed();
  }
}

export const inbox = new Inbox();
