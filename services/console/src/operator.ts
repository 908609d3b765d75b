import { fetchJson } from "./gateway";
import { useLoaded } from "./loaded";

/** What the user may see; the gateway decides on each action. */
export interface Access {
  /** Whether the gateway has said it: until then, everything is taken to be permitted. */
  isKnown: boolean;
  /** Whether the user sees what operators see. */
  isOperator: boolean;
  /** Whether `headrace dev` serves the page. */
  isDevelopment: boolean;
  /** Whether the user's roles permit an operation with some agent. Until it is known, they do. */
  may: (operation: string) => boolean;
}

/** Returns what the user may see, by the fleet's state as the gateway shows it to the user. */
export function useAccess(): Access {
  const { value } = useLoaded("operator", (signal) => fetchJson("v1/fleet", { signal }));
  const operations: string[] | undefined = value?.["operations"];
  return {
    isKnown: value !== null,
    isOperator: value !== null && "workers" in value,
    isDevelopment: value?.["development"] === true,
    may: (operation) => operations?.includes(operation) ?? true,
  };
}
