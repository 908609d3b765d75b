import type { AskedCall } from "../approval/decision";
import { every, type Run } from "./transcript";

/** Returns the calls that were made in a thread, as questions refer to them. */
export function callsIn(runs: readonly Run[]): AskedCall[] {
  return runs.flatMap((run) =>
    [...every(run.items)].flatMap((item) => (item.kind === "tool" ? [{ id: item.id, name: item.name, args: item.args }] : [])),
  );
}
