import { ArrowDown } from "lucide";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon } from "../ui/icon";

/** Pixels from the end within which a reader is taken to be there. */
const NEAR = 60;

interface Scrolled {
  isEmpty: boolean;
  /** What the user has sent: its number. What comes next is meant for who sent it. */
  sent: number;
  children: ComponentChildren;
}

/** A conversation: it stays at its end for a reader who is there, and in its place for one who is not. */
export function Scroll({ isEmpty, sent, children }: Scrolled) {
  const place = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isBehind, setBehind] = useState(false);
  const toEnd = () => {
    follows.current = true;
    setBehind(false);
    place.current!.scrollTop = place.current!.scrollHeight;
  };
  useLayoutEffect(toEnd, [sent]);
  useLayoutEffect(() => {
    const element = place.current!;
    const observer = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
      else setBehind(distance(element) >= NEAR);
    });
    observer.observe(element);
    observer.observe(element.firstElementChild!);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="scroll-frame">
      <div
        class={isEmpty ? "scroll is-empty" : "scroll"}
        ref={place}
        role="log"
        aria-label="Messages"
        tabIndex={0}
        onScroll={({ currentTarget }) => {
          follows.current = distance(currentTarget) < NEAR;
          setBehind(!follows.current);
        }}
      >
        <div class="column">{children}</div>
      </div>
      {isBehind && (
        <button type="button" class="plain small to-end" onClick={toEnd}>
          <Icon of={ArrowDown} size={14} /> Latest
        </button>
      )}
    </div>
  );
}

function distance({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}
