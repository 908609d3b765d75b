import { Bot, ChevronDown, ChevronLeft, ChevronRight, CircleHelp, Footprints, Hourglass, Maximize2, RefreshCw, Sparkles, Unplug, Wrench, ZoomIn, ZoomOut } from "lucide";
import type { IconNode } from "lucide";
import { useEffect, useState } from "preact/hooks";

import { Icon } from "../ui/icon";
import { IconButton } from "../ui/icon_button";
import { moveByArrows } from "./arrow_keys";
import { likeRows, nameOf, type LikeRows } from "./like_rows";
import { useOpened } from "./opened";
import type { Span, SpanKind } from "./trace";
import { costOf, elapsed, ticksOf, tokensOf } from "./units";
import { moved, WHOLE, zoomed, type Window } from "./window";

const ICONS: Record<SpanKind, IconNode> = {
  run: RefreshCw,
  queue: Hourglass,
  attempt: RefreshCw,
  gap: Unplug,
  waiting: CircleHelp,
  model: Sparkles,
  tool: Wrench,
  step: Footprints,
  child: Bot,
};
const KIND_NAMES: Record<SpanKind, string> = {
  run: "run", queue: "queue", attempt: "attempt", gap: "gap", waiting: "wait", model: "model", tool: "tool", step: "step", child: "child task",
};

const MOST = 200;
const ZOOM = 2;
/** A tick behind this share of the axis has no room for its text. */
const LAST_TICK = 0.8;

interface Shown {
  name: string;
  spans: { span: Span; depth: number }[];
  from: number;
  to: number;
  /** Whether what is open goes on now, and is not shown as it was. */
  isLive: boolean;
  /** Whether tokens and cost have columns. */
  hasUsage: boolean;
  selected: string;
  onSelect: (span: Span) => void;
}

/** Spans below each other on one time axis, which can be zoomed into. */
export function Waterfall({ name, spans, from, to, isLive, hasUsage, selected, onSelect }: Shown) {
  const [view, setView] = useState(WHOLE);
  const [isAll, setAll] = useState(false);
  const until = useNow(spans.some(({ span }) => span.isOpen) && isLive, to);
  const length = Math.max(1, until - from);
  const live = spans.map(({ span, depth }): Placed => ({ span: span.isOpen && isLive ? { ...span, to: until } : span, depth }));
  const all = likeRows(live, isLike);
  const { isOpen, toggle } = useOpened(all, ({ span }) => span.id, selected);
  const entries = all.flatMap((like): LikeRows<Placed>[] =>
    like.rows.length > 1 && isOpen(like) ? [like, ...like.rows.map(({ span, depth }) => ({ rows: [{ span, depth: depth + 1 }], period: 1 }))] : [like],
  );
  const shown = isAll ? entries : entries.slice(0, MOST);
  const isZoomed = view.to - view.from < 1;
  return (
    <figure class={hasUsage ? "waterfall has-usage" : "waterfall"} aria-label={name} onKeyDown={(event) => zoomByKey(event, view, setView)}>
      <div class="waterfall-head">
        <span class="zoom" role="group" aria-label="Zoom">
          <IconButton icon={ZoomOut} label="Zoom out" isSmall isDisabled={!isZoomed} onClick={() => setView(zoomed(view, ZOOM))} />
          <IconButton icon={ZoomIn} label="Zoom in" isSmall onClick={() => setView(zoomed(view, 1 / ZOOM))} />
          {isZoomed && (
            <>
              <IconButton icon={ChevronLeft} label="Earlier" isSmall isDisabled={view.from <= 0} onClick={() => setView(moved(view, -0.5))} />
              <IconButton icon={ChevronRight} label="Later" isSmall isDisabled={view.to >= 1} onClick={() => setView(moved(view, 0.5))} />
              <IconButton icon={Maximize2} label="Show all of it" isSmall onClick={() => setView(WHOLE)} />
            </>
          )}
        </span>
        <Axis view={view} length={length} />
        <span class="waterfall-figures soft" aria-hidden="true">
          <span>Time</span>
          {hasUsage && <span class="wide">Tokens</span>}
          {hasUsage && <span class="wide">Cost</span>}
        </span>
      </div>
      <ol onKeyDown={moveByArrows} onWheel={(event) => zoomByWheel(event, view, setView)}>
        {shown.map((like) => {
          const { span, depth } = like.rows[0]!;
          const isFolded = like.rows.length > 1;
          const bars = isFolded ? extentsOf(like.rows, length) : [span];
          const failed = like.rows.filter((one) => one.span.hasFailed).length;
          const choose = () => (isFolded ? toggle(like) : onSelect(span));
          return (
            <li key={isFolded ? `like ${span.id}` : span.id}>
              <button
                type="button" class="span-row" onClick={choose} onDblClick={() => isFolded || setView(windowOf(span, from, length))}
                {...(isFolded ? { "aria-expanded": isOpen(like) } : { "aria-pressed": span.id === selected })}
              >
                <span class="span-name" style={{ paddingLeft: `${Math.min(depth, 8) * 14}px` }}>
                  <span class={`span-icon ${span.kind}`}><Icon of={isFolded ? (isOpen(like) ? ChevronDown : ChevronRight) : ICONS[span.kind]} size={13} /></span>
                  <span class={failed > 0 ? "span-text has-failed" : "span-text"}>{isFolded ? nameOf(like, (one) => one.span.name) : span.name}</span>
                  {isFolded && failed > 0 && <span class="bad-text span-failed">{failed.toLocaleString()} failed</span>}
                  <span class="unseen">, {KIND_NAMES[span.kind]}{!isFolded && span.hasFailed && ", failed"}{span.isOpen && ", in progress"}</span>
                </span>
                <span class="track" aria-hidden="true">
                  {bars.map((bar, at) => <Bar key={at} span={bar} view={view} from={from} length={length} />)}
                </span>
                <Figures spans={like.rows.map((one) => one.span)} hasUsage={hasUsage} />
              </button>
            </li>
          );
        })}
      </ol>
      {entries.length > shown.length && (
        <figcaption class="hint">
          The first {MOST} of {entries.length.toLocaleString()}.{" "}
          <button type="button" class="link" onClick={() => setAll(true)}>Show all</button>
        </figcaption>
      )}
    </figure>
  );
}

type Placed = Shown["spans"][number];

function isLike(one: Placed, other: Placed): boolean {
  return one.depth === other.depth && one.span.kind === other.span.kind && one.span.name === other.span.name;
}

/** Share of the axis within which bars of like spans are one. */
const JOINED = 0.002;

/** Returns the bars of like spans: those beside each other in one, if the same came of them. */
function extentsOf(placed: readonly Placed[], length: number): Span[] {
  const found: Span[] = [];
  for (const { span } of placed) {
    const last = found.at(-1);
    if (last?.hasFailed === span.hasFailed && span.from - last.to < JOINED * length) last.to = Math.max(last.to, span.to);
    else found.push({ ...span });
  }
  // What has failed is above the others.
  return found.sort((one, other) => Number(one.hasFailed) - Number(other.hasFailed));
}

/** What spans took together. */
function Figures({ spans, hasUsage }: { spans: readonly Span[]; hasUsage: boolean }) {
  const sum = (of: (span: Span) => number) => spans.reduce((total, one) => total + of(one), 0);
  const tokens = sum((one) => one.tokens);
  return (
    <span class="waterfall-figures">
      <span class="mono">{elapsed(Math.max(...spans.map(({ to }) => to)) - spans[0]!.from)}</span>
      {hasUsage && <span class="mono wide">{tokensOf(tokens)}{tokens > 0 && <span class="unseen"> tokens</span>}</span>}
      {hasUsage && <span class="mono wide">{costOf(sum((one) => one.cost))}</span>}
    </span>
  );
}

const SECOND = 1_000;

/** Returns the time, each second anew, while something goes on; else `last`. */
function useNow(goesOn: boolean, last: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!goesOn) return;
    const timer = setInterval(() => setNow(Date.now()), SECOND);
    return () => clearInterval(timer);
  }, [goesOn]);
  return goesOn ? Math.max(now, last) : last;
}

function Axis({ view, length }: { view: Window; length: number }) {
  const width = view.to - view.from;
  const begin = view.from * length;
  return (
    <span class="axis" aria-hidden="true">
      {ticksOf(width * length, 5).filter((tick) => tick <= width * length * LAST_TICK).map((tick) => (
        <span key={tick} style={{ left: `${(tick / (width * length)) * 100}%` }}>{elapsed(begin + tick)}</span>
      ))}
    </span>
  );
}

function Bar({ span, view, from, length }: { span: Span; view: Window; from: number; length: number }) {
  const place = (time: number) => (((time - from) / length - view.from) / (view.to - view.from)) * 100;
  const left = Math.max(-1, place(span.from));
  const right = Math.min(101, place(span.to));
  if (right < 0 || left > 100) return null;
  const state = `${span.hasFailed ? " has-failed" : ""}${span.isOpen ? " is-open" : ""}`;
  return (
    <span
      class={`span ${span.kind}${state}`}
      title={`${span.name}: ${elapsed(span.to - span.from)}`}
      style={{ left: `${Math.min(left, 99.6)}%`, width: `${Math.max(0.4, right - left)}%` }}
    />
  );
}

/** The window around a span, with a little of what is beside it. */
function windowOf(span: Span, from: number, length: number): Window {
  const middle = ((span.from + span.to) / 2 - from) / length;
  const width = Math.min(1, Math.max(((span.to - span.from) / length) * 1.2, 1e-9));
  return zoomed(zoomed(WHOLE, width, middle), 1, middle);
}

function zoomByWheel(event: WheelEvent, view: Window, set: (view: Window) => void): void {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  set(zoomed(view, event.deltaY > 0 ? 1.25 : 0.8));
}

function zoomByKey(event: KeyboardEvent, view: Window, set: (view: Window) => void): void {
  const wanted: Record<string, Window> = {
    "+": zoomed(view, 1 / ZOOM),
    "-": zoomed(view, ZOOM),
    "0": WHOLE,
    ArrowLeft: moved(view, -0.25),
    ArrowRight: moved(view, 0.25),
  };
  const next = event.ctrlKey || event.metaKey || event.altKey ? undefined : wanted[event.key];
  if (!next) return;
  event.preventDefault();
  set(next);
}
