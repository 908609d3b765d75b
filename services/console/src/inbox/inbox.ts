import { RequestRefused } from "@headrace/client/errors.js";
import { watchTasks } from "@headrace/client/lists.js";

import { CONNECTION, fetchJson, Refused, urlOf } from "../gateway";
import { WAITING, type Row } from "../rows/query";
import { session } from "../session";
import { Store } from "../store";

/** Milliseconds from a change until the questions are asked for: several at once are one request. */
const SETTLES = 200;
/** Milliseconds between two requests of a tab that nobody sees. */
const UNSEEN = 60_000;
const RETRIES = 10_000;
const MOST = 200;
/** Answers that another token begins anew; the same one would get them again and again. */
const FINAL = [401, 403];

/**
 * The questions that wait for the user, the oldest first; on every page, for their number.
 *
 * A tab that is seen watches them. Browsers keep few connections open for all tabs of a gateway, so
 * the others ask now and then.
 */
class Inbox extends Store {
  rows: Row[] | null = null;
  total = 0;
  error = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private loading = new AbortController();
  private watching = new AbortController();
  private token = session.token;

  constructor() {
    super();
    session.follow(() => this.begin());
    document.addEventListener("visibilitychange", () => this.keepUp());
    this.keepUp();
  }

  /** Begins anew for another user; a session also changes when its token is refused. */
  private begin(): void {
    if (session.token === this.token) return;
    this.token = session.token;
    this.rows = null;
    this.total = 0;
    this.changed();
    this.keepUp();
  }

  /** Keeps the questions up to date, by a stream while the tab is seen. */
  private keepUp(): void {
    this.watching.abort();
    this.watching = new AbortController();
    if (document.hidden) this.loadLater(UNSEEN);
    else void this.watch(this.watching.signal);
  }

  private async watch(signal: AbortSignal): Promise<void> {
    const filter = { own: true, status: WAITING };
    try {
      for await (const change of watchTasks(urlOf("v1"), filter, { ...CONNECTION, signal })) this.loadLater(change ? SETTLES : 0);
    } catch (error) {
      if (signal.aborted) return;
      // Says why, too.
      void this.load();
      if (error instanceof RequestRefused && FINAL.includes(error.response.status)) return;
      setTimeout(() => signal.aborted || this.keepUp(), RETRIES);
    }
  }

  private loadLater(delay: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.load(), delay);
  }

  /** Asks for the questions now, such as after an answer. */
  async load(): Promise<void> {
    this.loading.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
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
      if (error instanceof Refused && FINAL.includes(error.status)) return this.changed();
      this.loadLater(RETRIES);
    }
    if (document.hidden) this.loadLater(UNSEEN);
    this.changed();
  }
}

export const inbox = new Inbox();
