import { useEffect, useState } from "preact/hooks";

import { session } from "./session";
import { useStore } from "./store";

/** What has been loaded so far: a value, an error, or neither while it is loading. */
export interface Loaded<Value> {
  value: Value | null;
  error: string;
}

/** Loads something for a component, and again whenever `key` or the user's token changes. */
export function useLoaded<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
): Loaded<Value> {
  const { token } = useStore(session);
  const [loaded, setLoaded] = useState<Loaded<Value>>({ value: null, error: "" });
  useEffect(() => {
    const aborting = new AbortController();
    const { signal } = aborting;
    load(signal).then(
      (value) => signal.aborted || setLoaded({ value, error: "" }),
      (error: Error) => signal.aborted || setLoaded({ value: null, error: error.message }),
    );
    return () => aborting.abort();
  }, [key, token]);
  return loaded;
}
