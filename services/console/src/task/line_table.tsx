import { Bot, ChevronDown, ChevronRight, CircleDot, CircleHelp, Coins, File, Footprints, Lightbulb, MessageSquare, Search, Text, Wrench } from "lucide";
import type { IconNode } from "lucide";
import { useMemo, useState } from "preact/hooks";

import { Icon } from "../ui/icon";
import { moveByArrows } from "./arrow_keys";
import { likeRows, nameOf, type LikeRows } from "./like_rows";
import { matching, type LineKind, type LogLine } from "./log_lines";
import { useOpened } from "./opened";
import { useRowsInView } from "./rows_in_view";
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
  const like = useMemo(() => likeRows(lines, isLike), [lines, lines.length]);
  const { isOpen, toggle } = useOpened(like, ({ generation }) => generation, selected);
  const entries = like.flatMap((one): Entry[] => {
    if (one.rows.length === 1) return [{ line: one.rows[0]!, isInside: false }];
    return [{ like: one, isOpen: isOpen(one) }, ...(isOpen(one) ? one.rows.map((line) => ({ line, isInside: true })) : [])];
  });
  const { first, last, frame } = useRowsInView(entries.length, HEIGHT, follows);
  return (
    <div class="lines" aria-label="Log" {...frame}>
      <ol onKeyDown={moveByArrows} style={{ height: `${entries.length * HEIGHT}px` }}>
        {entries.slice(first, last).map((entry, at) => (
          <li key={keyOf(entry)} style={{ top: `${(first + at) * HEIGHT}px` }} aria-setsize={entries.length} aria-posinset={first + at + 1}>
            {"line" in entry ? (
              <LineRow line={entry.line} begin={begin} isInside={entry.isInside} isSelected={entry.line.generation === selected} onSelect={onSelect} />
            ) : (
              <LikeRow like={entry.like} begin={begin} isOpen={entry.isOpen} onToggle={() => toggle(entry.like)} />
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** What a row shows: a line, perhaps one of several like ones, or these together. */
type Entry = { line: LogLine; isInside: boolean } | { like: LikeRows<LogLine>; isOpen: boolean };

function keyOf(entry: Entry): string {
  return "line" in entry ? entry.line.generation + entry.line.title : `like ${entry.like.rows[0]!.generation}`;
}

/** What people have said is never folded. */
const SAID: ReadonlySet<LineKind> = new Set(["message", "question"]);

function isLike(one: LogLine, other: LogLine): boolean {
  return one.kind === other.kind && one.title === other.title && one.who === other.who && !SAID.has(one.kind);
}

/** Like lines in one row, which opens. */
function LikeRow({ like, begin, isOpen, onToggle }: { like: LikeRows<LogLine>; begin: number; isOpen: boolean; onToggle: () => void }) {
  const { rows } = like;
  const [one, last] = [rows[0]!, rows.at(-1)!];
  const failed = rows.filter(({ look }) => look === "bad").length;
  return (
    <button type="button" class="line is-like" aria-expanded={isOpen} onClick={onToggle}>
      <span class="mono soft line-time">{elapsed(one.at - begin)}</span>
      <span class="line-icon"><Icon of={isOpen ? ChevronDown : ChevronRight} size={14} /></span>
      <span class="line-title">{nameOf(like, ({ title }) => title)}</span>
      <span class="line-text">
        {one.who && <span class="tag">{one.who}</span>} {failed > 0 && <span class="bad-text">{failed.toLocaleString()} failed</span>}
        {rows.some(({ look }) => look === "busy") && <span class="soft"> in progress<span class="busy-mark" aria-hidden="true" /></span>}
      </span>
      <span class="mono soft line-took">{last.until > one.at ? elapsed(last.until - one.at) : ""}</span>
    </button>
  );
}

interface Row {
  line: LogLine;
  begin: number;
  isInside: boolean;
  isSelected: boolean;
  onSelect: (line: LogLine) => void;
}

function LineRow({ line, begin, isInside, isSelected, onSelect }: Row) {
  const took = line.until - line.at;
  return (
    <button type="button" class={`line${isInside ? " is-inside" : ""}${isSelected ? " is-selected" : ""}`} aria-pressed={isSelected} onClick={() => onSelect(line)}>
      <span class="mono soft line-time">{elapsed(line.at - begin)}</span>
      <span class={`line-icon is-${line.kind}${line.look && ` is-${line.look}`}`}><Icon of={LINE_ICONS[line.kind]} size={14} /></span>
      <span class="line-title">{line.title}</span>
      <span class="line-text">
        {line.who && <span class="tag">{line.who}</span>} <bdi>{line.text.slice(0, LONGEST)}</bdi>
        {line.result !== null && <span class="soft"> → {line.result.slice(0, LONGEST)}</span>}
      </span>
      <span class="mono soft line-took">{took >= 1 ? elapsed(took) : ""}</span>
    </button>
  );
}
