import { JsonTree } from "../json_tree";
import type { Patch } from "./transcript";

/** Changes that are listed. */
const MOST = 50;

/** Whether a thread has shared state to show. */
export function hasState(state: unknown, patches: readonly Patch[]): boolean {
  return patches.length > 0 || (typeof state === "object" && state !== null && Object.keys(state).length > 0);
}

/** The state that agent and page share, and its changes. */
export function StatePanel({ state, patches }: { state: unknown; patches: readonly Patch[] }) {
  return (
    <aside class="state" aria-label="Shared state" tabIndex={0}>
      <h2>State</h2>
      <JsonTree value={state} isOpen />
      {patches.length > 0 && <h2>Changes</h2>}
      <ol class="patches">
        {patches.slice(-MOST).reverse().map((patch, at) => (
          <li key={patches.length - at}>
            {patch.operations.map((operation, index) => (
              <div key={index} class="mono">
                <span class={`op ${operation["op"]}`}>{operation["op"]}</span> {operation["path"] || "/"}{" "}
                <span class="soft">{operation["value"] === undefined ? operation["from"] : JSON.stringify(operation["value"])}</span>
              </div>
            ))}
          </li>
        ))}
      </ol>
    </aside>
  );
}
