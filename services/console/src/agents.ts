import { fetchJson, type Json } from "./gateway";
import { useLoaded, type Loaded } from "./loaded";

/** Returns the agents that the user may call, as the gateway lists them, the default one first. */
export function useAgents(): Loaded<Json[]> {
  return useLoaded("agents", async (signal) => {
    const agents: Json[] = (await fetchJson("v1/agents", { signal }))["agents"];
    return agents.sort((one, other) => Number(other["default"] ?? false) - Number(one["default"] ?? false));
  });
}
