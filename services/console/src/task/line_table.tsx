import { Bot, CircleDot, CircleHelp, Coins, File, Footprints, Lightbulb, MessageSquare, Search, Text, Wrench } from "lucide";
import type { IconNode } from "lucide";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon } from "../ui/icon";
import { moveByArrows } from "./arrow_keys";
import { matching, type LineKind, type LogLine } from "./log_lines";
import { elapsed } from "./units";

export const LINE_ICONS: Record<LineKind, IconNode> = {
  message: MessageSquare,
  text: Text,
  thinking: Lightbulb,
  tool: Wrench,
  step: Footprints,
  child: Bot,
  question: CircleHelp,
  file: File,
  state: CircleDot,
  usage: Coins,
};
const CHIPS: readonly (readonly [string, readonly LineKind[]])[] = [
  ["Messages", ["message", "text", "question"]],
  ["Thoughts", ["thinking"]],
  ["Tools", ["tool"]],
  ["Steps", ["step"]],
  ["Children", ["child"]],
  ["Files and data", ["file"]],
  ["Usage", ["usage"]],
];
const HEIGHT = 32;
const MARGIN = 8;
/** Characters of a text that a row can show. */
const LONGEST = 300;

interface Shown {
  lines: readonly LogLine[];
  begin: number;
  selected: number;
  follows: boolean;
  onSelect: (line: LogLine) => void;
}

/** A log's lines, by kind and by what they say; only those in view are in the page. */
export function LineTable({ lines, begin, selected, follows, onSelect }: Shown) {
  const [kinds, setKinds] = useState<ReadonlySet<LineKind>>(new Set());
  const [search, setSearch] = useState("");
  const shown = kinds.size === 0 && !search.trim() ? lines : matching(lines, kinds, search);
  const present = new Set(lines.map(({ kind }) => kind));
  const toggle = (chosen: readonly LineKind[]) => {
    const next = new Set(kinds);
    for (const kind of chosen) if (!next.delete(kind)) next.add(kind);
    setKinds(next);
  };
  return (
    <>
      <div class="line-tools">
        <label class="search">
          <span class="unseen">Search in the log</span>
          <Icon of={Search} />
          <input type="search" name="log-search" placeholder="Search in the log" value={search} onInput={({ currentTarget }) => setSearch(currentTarget.value)} />
        </label>
        <span class="chips" role="group" aria-label="Kinds">
          {CHIPS.filter(([, chosen]) => chosen.some((kind) => present.has(kind))).map(([title, chosen]) => (
            <button key={title} type="button" class="chip" aria-pressed={chosen.every((kind) => kinds.has(kind))} onClick={() => toggle(chosen)}>
              {title} <span class="number">{lines.filter(({ kind }) => chosen.includes(kind)).length}</span>
            </button>
          ))}
        </span>
      </div>
      {shown.length === 0 && lines.length > 0 ? (
        <p class="hint">
          Nothing in the log matches.{" "}
          <button type="button" class="link" onClick={() => { setKinds(new Set()); setSearch(""); }}>Show all of it</button>
        </p>
      ) : (
        <Rows lines={shown} begin={begin} selected={selected} follows={follows} onSelect={onSelect} />
      )}
    </>
  );
}

function Rows({ lines, begin, selected, follows, onSelect }: Shown) {
  const place = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = place.current!;
    if (follows) element.scrollTop = element.scrollHeight;
    if (element.clientHeight !== view.height) setView({ top: element.scrollTop, height: element.clientHeight });
  });
  const first = Math.max(0, Math.floor(view.top / HEIGHT) - MARGIN);
  const last = Math.min(lines.length, Math.ceil((view.top + view.height) / HEIGHT) + MARGIN);
  return (
    <div
      class="lines"
      ref={place}
      tabIndex={0}
      role="region"
      aria-label="Log"
      onScroll={({ currentTarget: { scrollTop, clientHeight } }) => setView({ top: scrollTop, height: clientHeight })}
    >
      <ol onKeyDown={moveByArrows} style={{ height: `${lines.length * HEIGHT}px` }}>
        {lines.slice(first, last).map((line, at) => (
          <li key={line.generation + line.title} style={{ top: `${(first + at) * HEIGHT}px` }} aria-setsize={lines.length} aria-posinset={first + at + 1}>
            <LineRow line={line} begin={begin} isSelected={line.generation === selected} onSelect={onSelect} />
          </li>
        ))}
      </ol>
    </div>
  );
}

function LineRow({ line, begin, isSelected, onSelect }: { line: LogLine; begin: number; isSelected: boolean; onSelect: (line: LogLine) => void }) {
  const took = line.until - line.at;
  return (
    <button type="button" class={isSelected ? "line is-selected" : "line"} aria-pressed={isSelected} onClick={() => onSelect(line)}>
      <span class="mono soft line-time">{elapsed(line.at - begin)}</span>
      <span class={`line-icon is-${line.kind}${line.look && ` is-${line.look}`}`}><Icon of={LINE_ICONS[line.kind]} size={14} /></span>
      <span class="line-title">{line.title}</span>
      <span class="line-text">
        {line.who && <span class="tag">{line.who}</span>} {line.text.slice(0, LONGEST)}
        {line.result !== null && <span class="soft"> → {line.result.slice(0, LONGEST)}</span>}
      </span>
      <span class="mono soft line-took">{took >= 1 ? elapsed(took) : ""}</span>
    </button>
  );
}
