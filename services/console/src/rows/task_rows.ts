import { watchTasks } from "@headrace/client/lists.js";

import { CONNECTION, fetchJson, Refused, urlOf, type Json } from "../gateway";
import { Store } from "../store";
import { rowsPath, statesOf, STATE_CHOICES, WAITING, type Row, type RowFilters } from "./query";

/** Milliseconds from a change until the list is asked for again: many at once are one request. */
const SETTLES = 700;
const RETRIES = 5_000;
/** Tasks that wait for a person and are shown above the others. */
const SHOWN_WAITING = 5;

const OTHERS = STATE_CHOICES.flatMap(([name, , states]) => (name === "waiting" ? [] : states));

/** A page of the tasks of all agents, with those that wait for a person; the first page is live. */
export class TaskRows extends Store {
  rows: Row[] | null = null;
  waiting: Row[] = [];
  counts: Record<string, number> = {};
  total = 0;
  next = "";
  /** The time as far as a search has gone back, if there are older tasks. */
  searchedTo = "";
  error = "";
  private readonly aborting = new AbortController();
  private isLoading = false;
  private isStale = false;
  private settling: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly filters: RowFilters) {
    super();
  }

  async open(): Promise<void> {
    void this.load();
    if (this.filters.after) return;
    const { signal } = this.aborting;
    const { owner = "" } = this.filters;
    try {
      for await (const _ of watchTasks(urlOf("v1"), { owner }, { ...CONNECTION, signal })) this.loadLater(SETTLES);
    } catch (error) {
      // What the list itself is refused for says more.
      if (!this.error) this.fail(error as Error);
    }
  }

  close(): void {
    this.aborting.abort();
    clearTimeout(this.settling);
  }

  /** Whether those that wait for a person have a place of their own. */
  get hasWaiting(): boolean {
    return !this.filters.state && !this.filters.after && this.waiting.length > 0;
  }

  private loadLater(delay: number): void {
    if (this.aborting.signal.aborted) return;
    this.settling ??= setTimeout(() => {
      this.settling = undefined;
      void this.load();
    }, delay);
  }

  private async load(): Promise<void> {
    this.isStale = this.isLoading;
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      await this.fetch();
      this.error = "";
    } catch (error) {
      this.fail(error as Error);
      if (!(error instanceof Refused) || error.status >= 500) this.loadLater(RETRIES);
    }
    this.isLoading = false;
    this.changed();
    if (this.isStale) this.loadLater(0);
  }

  private async fetch(): Promise<void> {
    const { signal } = this.aborting;
    const { filters } = this;
    const [now, chosen] = [Date.now(), statesOf(filters)];
    const asksAll = chosen.length === 0;
    const [page, waiting] = await Promise.all([
      // Those that wait come first, so they are not among the others again.
      fetchJson(rowsPath(filters, asksAll ? OTHERS : chosen, now, { after: filters.after ?? "" }), { signal }),
      asksAll && !filters.after
        ? fetchJson(rowsPath(filters, WAITING, now, { order: "oldest", limit: String(SHOWN_WAITING) }), { signal })
        : { tasks: [] as Json[] },
    ]);
    this.rows = page["tasks"];
    this.waiting = waiting["tasks"] as Row[];
    this.counts = page["counts"];
    this.total = page["totalSize"];
    this.next = page["next"] ?? "";
    this.searchedTo = page["searchedTo"] ?? "";
  }

  private fail(error: Error): void {
    if (this.aborting.signal.aborted) return;
    this.error = error.message;
    this.changed();
  }
}
