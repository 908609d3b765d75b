import { watchTasks, type ListChange } from "@headrace/client/lists.js";

import { CONNECTION, fetchJson, Refused, urlOf, type Json } from "./gateway";
import { changed, PAGE_SIZE, type ListedTask } from "./listed_tasks";
import { Store } from "./store";

/** The filters of a list, as the address has them. */
export type Filters = Readonly<Record<string, string>>;

/** Milliseconds after a change, or a failure, until the list is asked for again. */
const SETTLES = 5_000;

/** A page of an agent's tasks; the first page is live. */
export class TaskList extends Store {
  tasks: ListedTask[] | null = null;
  total = 0;
  next = "";
  error = "";
  private readonly aborting = new AbortController();
  private isLoading = false;
  private isStale = false;
  private waiting: ListChange[] = [];
  private settling: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly agent: string,
    private readonly filters: Filters,
  ) {
    super();
  }

  async open(): Promise<void> {
    if (!this.agent) return;
    if (this.filters["page"]) return this.load();
    const { signal } = this.aborting;
    const { contextId = "", owner = "" } = this.filters;
    const filter = { contextId, owner, status: this.status };
    const url = urlOf(`v1/agents/${encodeURIComponent(this.agent)}`);
    try {
      for await (const change of watchTasks(url, filter, { ...CONNECTION, signal })) {
        if (change === null) void this.load();
        else this.take(change);
      }
    } catch (error) {
      this.fail(error as Error);
    }
  }

  close(): void {
    this.aborting.abort();
    clearTimeout(this.settling);
  }

  private get path(): string {
    return `v1/agents/${encodeURIComponent(this.agent)}/tasks`;
  }

  private get status(): string {
    return this.filters["status"] ? `TASK_STATE_${this.filters["status"]}` : "";
  }

  private take(change: ListChange): void {
    // The answer that is awaited may be older.
    if (this.isLoading) this.waiting.push(change);
    else this.tasks = changed(this.tasks ?? [], change, this.status);
    this.loadLater();  // Its size and pages change, too.
    this.changed();
  }

  private loadLater(): void {
    if (this.aborting.signal.aborted) return;
    this.settling ??= setTimeout(() => {
      this.settling = undefined;
      void this.load();
    }, SETTLES);
  }

  private async load(): Promise<void> {
    this.isStale = this.isLoading;
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const found = await this.fetch();
      this.tasks = found["tasks"].map(({ id, contextId, status }: Json) => ({ id, contextId, state: status.state, time: status.timestamp }));
      this.total = found["totalSize"];
      this.next = found["nextPageToken"] ?? "";
      this.error = "";
    } catch (error) {
      this.fail(error as Error);
      // Changes that the stream left out are only in the list.
      if (!(error instanceof Refused) || error.status >= 500) this.loadLater();
    }
    this.isLoading = false;
    for (const change of this.waiting.splice(0)) this.tasks = changed(this.tasks ?? [], change, this.status);
    this.changed();
    if (this.isStale) void this.load();
  }

  private fetch(): Promise<Json> {
    const { contextId = "", owner = "", after = "", page = "" } = this.filters;
    const query = given({
      status: this.status,
      contextId,
      owner,
      statusTimestampAfter: after && new Date(after).toISOString(),
      pageToken: page,
      pageSize: String(PAGE_SIZE),
      historyLength: "0",
    });
    return fetchJson(`${this.path}?${new URLSearchParams(query)}`, { signal: this.aborting.signal });
  }

  private fail(error: Error): void {
    if (this.aborting.signal.aborted) return;
    this.error = error.message;
    this.changed();
  }
}

function given(query: Record<string, string | undefined>): [string, string][] {
  return Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
}
