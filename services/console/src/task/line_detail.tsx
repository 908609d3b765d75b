import { X } from "lucide";
import { useState } from "preact/hooks";

import { JsonTree } from "../json_tree";
import { Markdown } from "../markdown/markdown";
import { linkTo } from "../route";
import { IconButton } from "../ui/icon_button";
import type { LogLine } from "./log_lines";
import type { LogRow } from "./timeline";
import { elapsed } from "./units";

/** Events of one line whose JSON is shown. */
const MOST = 50;

interface Shown {
  line: LogLine;
  rows: readonly LogRow[];
  onClose: () => void;
}

/** One line of a log in full, and the JSON of its events on demand. */
export function LineDetail({ line, rows, onClose }: Shown) {
  const { title, who, generations, at, until } = line;
  const first = rows[0]?.generation ?? 1;
  const events = generations.slice(0, MOST).map((generation) => rows[generation - first]).filter((row) => row !== undefined);
  const numbers = generations.length === 1 ? `Event ${generations[0]}` : `${generations.length} events, ${generations[0]} to ${generations.at(-1)}`;
  return (
    <aside class="detail" aria-label={title} tabIndex={0}>
      <header>
        <h2>
          {title} {who && <span class="tag">{who}</span>}
        </h2>
        <span class="grow" />
        <IconButton icon={X} label="Close" isSmall onClick={onClose} />
      </header>
      <p class="hint">
        {new Date(at).toLocaleTimeString()}{until > at && `, for ${elapsed(until - at)}`}; {numbers}
        {events[0] && <>; {events[0].writer.kind} <span class="mono">{events[0].writer.id}</span></>}
      </p>
      <Content line={line} />
      {line.task && <a href={linkTo(["tasks", title, line.task])}>Open the task of {title}</a>}
      <h3>JSON</h3>
      {events.map((row) => <Raw key={row.generation} row={row} />)}
      {generations.length > MOST && <p class="hint">The first {MOST} of {generations.length} events.</p>}
    </aside>
  );
}

function Content({ line: { kind, text, result } }: { line: LogLine }) {
  if (kind !== "tool" && kind !== "file") return text.trim() ? <Markdown text={text} /> : null;
  return (
    <>
      {kind === "tool" && <h3>Arguments</h3>}
      <Value text={text} />
      {result !== null && <h3>Result</h3>}
      {result !== null && <Value text={result} />}
    </>
  );
}

function Value({ text }: { text: string }) {
  const value = jsonOf(text);
  return typeof value === "object" && value !== null ? <JsonTree value={value} isOpen /> : <pre>{text}</pre>;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function Raw({ row }: { row: LogRow }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="raw" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Event {row.generation} <span class="soft">{row.type}</span>
      </summary>
      {isOpen && <pre>{JSON.stringify(row.event, null, 2)}</pre>}
    </details>
  );
}
