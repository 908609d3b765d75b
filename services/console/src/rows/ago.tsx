import { useEffect, useState } from "preact/hooks";

import { ago } from "./time";

const EVERY = 30_000;

/** How long ago a time was, kept current; the time itself on demand. */
export function Ago({ time }: { time: string }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), EVERY);
    return () => clearInterval(timer);
  }, []);
  const at = Date.parse(time);
  if (Number.isNaN(at)) return null;
  return <time dateTime={time} title={new Date(at).toLocaleString()}>{ago(at, Math.max(now, at))}</time>;
}
