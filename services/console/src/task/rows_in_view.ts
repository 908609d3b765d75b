import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows before and behind those in view that are in the page, too. */
const MARGIN = 10;

/**
 * Returns which rows of a long list are in view: only those are in the page.
 *
 * @param height Pixels of each row.
 * @param follows Whether the last row stays in view.
 */
export function useRowsInView(count: number, height: number, follows: boolean) {
  const place = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const look = () => setView({ top: place.current!.scrollTop, height: place.current!.clientHeight });
  useLayoutEffect(() => {
    const element = place.current!;
    if (follows) element.scrollTop = element.scrollHeight;
    if (element.clientHeight !== view.height) look();
  });
  const first = Math.max(0, Math.floor(view.top / height) - MARGIN);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + MARGIN);
  return { first, last, frame: { ref: place, tabIndex: 0, role: "region" as const, onScroll: look } };
}
