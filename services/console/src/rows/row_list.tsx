import { withoutArguments } from "../approval/decision";
import { linkTo } from "../route";
import { StateBadge } from "../ui/state_badge";
import { Ago } from "./ago";
import { titleOf, type Row } from "./query";

interface Listed {
  rows: readonly Row[];
  label: string;
  /** Whether tasks of several owners are among them. */
  hasOwners: boolean;
}

/** Tasks, one a row: what was asked, what is said of it, by which agent, since when. */
export function RowList({ rows, label, hasOwners }: Listed) {
  return (
    <ul class="rows" aria-label={label}>
      {rows.map((row) => (
        <li key={row.id}>
          <a class="row" href={linkTo(["tasks", row.agent, row.id])}>
            <span class="row-state"><StateBadge state={row.state} /></span>
            <span class="row-title">
              <span class="row-name" dir="auto">{titleOf(row)}</span>
              {row.text && <span class="row-text" dir="auto">{withoutArguments(row.text)}</span>}
            </span>
            <span class="row-agent">{row.agent}</span>
            {hasOwners && <span class="row-owner">{row.owner}</span>}
            <span class="row-time"><Ago time={row.time} /></span>
          </a>
        </li>
      ))}
    </ul>
  );
}
