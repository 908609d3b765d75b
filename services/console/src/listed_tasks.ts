import type { ListChange } from "@headrace/client/lists.js";

/** A task in a list. */
export interface ListedTask {
  id: string;
  contextId: string;
  state: string;
  time: string;
}

/** Tasks of a page. */
export const PAGE_SIZE = 50;

/** Returns a page's tasks after a change, the latest first. */
export function changed(tasks: readonly ListedTask[], change: ListChange, status: string): ListedTask[] {
  const old = tasks.find(({ id }) => id === change.task);
  const time = change.time ?? "";
  // The list was newer than the change.
  if (old && change.state !== null && Date.parse(time) < Date.parse(old.time)) return [...tasks];
  const others = tasks.filter((one) => one !== old);
  if (change.state === null || (status && change.state !== status)) return others;
  const task = { id: change.task, contextId: change.contextId ?? "", state: change.state, time };
  const below = others.findIndex((one) => Date.parse(one.time) <= Date.parse(time));
  const at = below < 0 ? others.length : below;
  return [...others.slice(0, at), task, ...others.slice(at)].slice(0, PAGE_SIZE);
}
