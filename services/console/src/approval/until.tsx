import { useEffect, useState } from "preact/hooks";

/** Milliseconds that a timer of a browser takes at most. */
const LONGEST = 2 ** 31 - 1;

/** Until when a question can be answered; afterwards, that an answer comes too late. */
export function Until({ time }: { time: string | undefined }) {
  const ends = Date.parse(time ?? "");
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!(ends > Date.now())) return;
    const timer = setTimeout(() => setNow(Date.now()), Math.min(LONGEST, ends - Date.now() + 50));
    return () => clearTimeout(timer);
  }, [ends, now]);
  if (Number.isNaN(ends)) return null;
  return ends > now ? (
    <p class="hint">Can be answered until <time dateTime={time}>{new Date(ends).toLocaleString()}</time>.</p>
  ) : (
    <p class="error" role="status">The time for an answer is over. The agent decides whether a late one counts.</p>
  );
}
