import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { stateName, summaryOf, type LogRow } from "./timeline";
import { elapsed } from "./units";

const HEIGHT = 26;
const MARGIN = 10;

interface Shown {
  name?: string;
  rows: LogRow[];
  selected: number;
  follows: boolean;
  onSelect: (generation: number) => void;
}

/** The rows of a log; only those in view are in the page. */
export function LogTable({ name = "Log", rows, selected, follows, onSelect }: Shown) {
  const place = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = place.current!;
    if (follows) element.scrollTop = element.scrollHeight;
    if (element.clientHeight !== view.height) setView({ top: element.scrollTop, height: element.clientHeight });
  });
  const first = Math.max(0, Math.floor(view.top / HEIGHT) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / HEIGHT) + MARGIN);
  const begin = rows[0] ? Date.parse(rows[0].time) : 0;
  return (
    <div
      class="log"
      ref={place}
      tabIndex={0}
      role="region"
      aria-label={name}
      onScroll={({ currentTarget: { scrollTop, clientHeight } }) => setView({ top: scrollTop, height: clientHeight })}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            <th scope="col">#</th>
            <th scope="col">After</th>
            <th scope="col">State</th>
            <th scope="col">Event</th>
            <th scope="col" class="wide">Run</th>
            <th scope="col" class="wide">Writer</th>
          </tr>
        </thead>
        <tbody>
          <Space rows={first} />
          {rows.slice(first, last).map((row, at) => (
            <tr
              key={row.generation}
              aria-rowindex={first + at + 2}
              class={row.generation === selected ? "is-selected" : ""}
              onClick={() => onSelect(row.generation)}
            >
              <td>
                <button type="button" class="link mono" aria-pressed={row.generation === selected}>
                  {row.generation}
                </button>
              </td>
              <td class="mono soft">{elapsed(Date.parse(row.time) - begin)}</td>
              <td>{stateName(row.state)}</td>
              <td class="event">{summaryOf(row)}</td>
              <td class="wide mono soft">{row.attempt ? `${row.run}.${row.attempt}` : row.run}</td>
              <td class="wide mono soft writer">{row.writer.id}</td>
            </tr>
          ))}
          <Space rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  );
}

function Space({ rows }: { rows: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true">
      <td class="space" colSpan={4} style={{ height: `${rows * HEIGHT}px` }} />
      <td class="space wide" colSpan={2} />
    </tr>
  );
}
