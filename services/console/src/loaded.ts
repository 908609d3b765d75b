import { useEffect, useState } from "preact/hooks";

import { session } from "./session";
import { useStore } from "./store";

/** What has been loaded so far: a value, an error, or neither while it is loading. */
export interface Loaded<Value> {
  value: Value | null;
  error: string;
}

/**
 * Loads something for a component, and again whenever `key`, `round` or the user's token changes.
 *
 * What was loaded under the same key and token stays while it is loaded again, also if that fails.
 */
export function useLoaded<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
  round = 0,
): Loaded<Value> {
  const { token } = useStore(session);
  const [loaded, setLoaded] = useState({ key, token, value: null as Value | null, error: "" });
  const isOf = (one: typeof loaded) => one.key === key && one.token === token;
  useEffect(() => {
    const aborting = new AbortController();
    const { signal } = aborting;
    load(signal).then(
      (value) => signal.aborted || setLoaded({ key, token, value, error: "" }),
      ({ message }: Error) =>
        signal.aborted || setLoaded((one) => ({ key, token, value: isOf(one) ? one.value : null, error: message })),
    );
    return () => aborting.abort();
  }, [key, round, token]);
  return isOf(loaded) ? loaded : { value: null, error: "" };
}
