import { fetchJson } from "./gateway";
import { useLoaded } from "./loaded";

/** What the user may see: what operators see, and what `headrace dev` adds; the gateway decides on each action. */
export function useAccess(): { isOperator: boolean; isDevelopment: boolean } {
  const { value } = useLoaded("operator", (signal) => fetchJson("v1/fleet", { signal }));
  return { isOperator: value !== null && "workers" in value, isDevelopment: value?.["development"] === true };
}
