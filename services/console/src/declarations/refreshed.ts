import { useEffect, useState } from "preact/hooks";

import { useLoaded, type Loaded } from "../loaded";

/** Milliseconds between two looks. */
const EVERY = 3_000;

/** As `useLoaded`, and again every few seconds while the tab is shown, or when `reload` is called. */
export function useRefreshed<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
): Loaded<Value> & { reload: () => void } {
  const [round, setRound] = useState(0);
  const reload = () => setRound((one) => one + 1);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), EVERY);
    return () => clearInterval(timer);
  }, []);
  return { ...useLoaded(key, load, round), reload };
}
