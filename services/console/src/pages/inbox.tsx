import { Inbox } from "lucide";
import { useEffect, useRef, useState } from "preact/hooks";

import { answersElsewhere } from "../inbox/answers_elsewhere";
import { inbox } from "../inbox/inbox";
import { InboxItem } from "../inbox/inbox_item";
import type { Row } from "../rows/query";
import { useKeys } from "../shell/keys";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { EmptyState } from "../ui/empty_state";
import { Skeleton } from "../ui/skeleton";

/** The questions of all agents that wait for the user, the oldest first; the first one is open. */
export function InboxPage() {
  const { total, error } = useStore(inbox);
  const [open, setOpen] = useState<string | null>(null);
  const rows = useWithOpen(inbox.rows, open);
  useEffect(() => void inbox.load(), []);
  const first = rows?.[0]?.id ?? "";
  const shown = open !== null && (open === "" || rows?.some(({ id }) => id === open)) ? open : first;
  useFocusKept(rows);
  useKeys({ j: () => move(1), k: () => move(-1) });
  return (
    <section class="page">
      <PageHead title="Inbox" also={total > 0 ? [`${total} waiting`] : []} {...(total > 0 ? { hint: "Questions that wait for you, the oldest first" } : {})} />
      {error && <p class="error" role="alert">{error}</p>}
      {rows === null && !error && <Skeleton lines={6} />}
      {rows?.length === 0 && (
        <EmptyState icon={Inbox} title="Nothing waits for you" actions={<a class="button plain" href="#/">All tasks</a>}>
          When an agent asks for an approval or an answer, it appears here.
        </EmptyState>
      )}
      {!!rows?.length && (
        <ul class="inbox">
          {rows.map((row) => (
            <InboxItem key={row.id} row={row} isOpen={row.id === shown} onToggle={() => setOpen(row.id === shown ? "" : row.id)} />
          ))}
        </ul>
      )}
      {rows && total > rows.length && <p class="hint">These are the oldest {rows.length} of {total.toLocaleString()}.</p>}
    </section>
  );
}

/** Returns the rows with the open one, which stays if somebody else has answered it: that is said there. */
function useWithOpen(rows: readonly Row[] | null, open: string | null): readonly Row[] | null {
  const elsewhere = useStore(answersElsewhere);
  const before = useRef<readonly Row[]>([]);
  const kept = rows && before.current.filter(({ id }) => (open === null || open === id) && elsewhere.of(id) !== undefined && !rows.some((row) => row.id === id));
  const shown = rows && [...kept!, ...rows].sort((one, other) => Date.parse(one.time) - Date.parse(other.time));
  useEffect(() => void (before.current = shown ?? []));
  return shown;
}

/** Has the keyboard go on with the next question when the one where it was is gone. */
function useFocusKept(rows: readonly Row[] | null): void {
  const wasInside = useRef(false);
  useEffect(() => {
    const note = ({ target }: FocusEvent) => void (wasInside.current = (target as Element).closest(".inbox") !== null);
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
  useEffect(() => {
    if (!wasInside.current || document.activeElement !== document.body) return;
    document.querySelector<HTMLElement>(".inbox-head[aria-expanded=true], .empty-state a")?.focus();
  }, [rows?.map(({ id }) => id).join()]);
}

function move(step: number): void {
  const heads = [...document.querySelectorAll<HTMLElement>(".inbox-head")];
  const at = heads.findIndex((head) => head === document.activeElement);
  heads[Math.max(0, Math.min(heads.length - 1, at < 0 ? 0 : at + step))]?.focus();
}
