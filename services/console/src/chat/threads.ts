import { fetchJson, type Json } from "../gateway";
import { Store } from "../store";

/** A thread of the user, with whatever agent. */
export interface Thread {
  id: string;
  agents: string[];
  title: string;
  /** The beginning of the last message. */
  text: string;
  state: string;
  /** Whether it waits for its user. */
  waiting: boolean;
  changed: string;
  unread: boolean;
  archived: boolean;
}

const PATH = "v1/threads";
const PAGE = 30;
/** Milliseconds after which the list is asked for again while it is seen. */
const STALE = 15_000;

/** The user's threads: those that match, the latest first. */
export class Threads extends Store {
  all: Thread[] = [];
  total = 0;
  error = "";
  isLoading = true;
  search = "";
  isArchived = false;
  private most = PAGE;
  private round = 0;
  private timer = 0;

  /** Keeps the list up to date until the returned function is called. */
  open(): () => void {
    const again = () => {
      if (document.visibilityState === "visible") void this.load();
    };
    void this.load();
    this.timer = window.setInterval(again, STALE);
    document.addEventListener("visibilitychange", again);
    return () => {
      window.clearInterval(this.timer);
      document.removeEventListener("visibilitychange", again);
    };
  }

  /** Asks for the list; an answer to an earlier question is dropped. */
  async load(): Promise<void> {
    const round = ++this.round;
    try {
      const found = await this.pages();
      if (round !== this.round) return;
      this.all = found.threads;
      this.total = found.total;
      this.error = "";
    } catch (error) {
      if (round !== this.round) return;
      this.error = (error as Error).message;
    }
    this.isLoading = false;
    this.changed();
  }

  find(search: string): void {
    this.search = search;
    this.most = PAGE;
    void this.load();
  }

  showArchived(isArchived: boolean): void {
    this.isArchived = isArchived;
    this.most = PAGE;
    void this.load();
  }

  more(): void {
    this.most += PAGE;
    void this.load();
  }

  /** Changes a thread, here at once. */
  async change(thread: Thread, fields: Partial<Pick<Thread, "title" | "archived">>): Promise<void> {
    Object.assign(thread, fields);
    this.changed();
    await send("PATCH", thread.id, fields);
    await this.load();
  }

  /** Notes that the user has seen the thread as it is. */
  async read(id: string): Promise<void> {
    const thread = this.all.find((one) => one.id === id);
    if (!thread?.unread) return;
    thread.unread = false;
    this.changed();
    await send("PATCH", id, { readTo: thread.changed }).catch(() => {});
  }

  /** Erases a thread with all its tasks. */
  async remove(thread: Thread): Promise<void> {
    await send("DELETE", thread.id);
    await this.load();
  }

  private async pages(): Promise<{ threads: Thread[]; total: number }> {
    const threads: Thread[] = [];
    let after = "";
    do {
      const query = new URLSearchParams({ limit: String(PAGE), archived: String(this.isArchived), ...(this.search && { q: this.search }), ...(after && { after }) });
      const page = await fetchJson(`${PATH}?${query}`);
      threads.push(...page["threads"]);
      after = page["next"] ?? "";
      if (threads.length >= this.most || !after) return { threads, total: page["total"] };
    } while (true);
  }
}

async function send(method: string, id: string, body?: Json): Promise<Json> {
  const init = body === undefined ? { method } : { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return fetchJson(`${PATH}/${encodeURIComponent(id)}`, init);
}

/** Returns the words of Markdown, without the signs that a line has no use for. */
export function wordsOf(markdown: string): string {
  return markdown.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/^[|:\s-]+$|\|/gm, " ").replace(/```\w*|[`*]|(^|\s)(#{1,6}|>)(?=\s)/g, "$1").replace(/\s+/g, " ").trim();
}

/** Returns when something was, as briefly as a list has room for. */
export function briefly(time: string, now = Date.now()): string {
  const date = new Date(time);
  const seconds = (now - date.getTime()) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return date.toLocaleDateString(undefined, { weekday: "short" });
  return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
}
