import { fetchJson } from "./gateway";
import { useLoaded } from "./loaded";

/** Returns whether the user may see the fleet as operators do; the gateway decides on each action. */
export function useIsOperator(): boolean {
  const { value } = useLoaded("operator", (signal) => fetchJson("v1/fleet", { signal }));
  return value !== null && "workers" in value;
}
