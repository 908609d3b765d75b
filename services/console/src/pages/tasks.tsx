import { ListChecks, Search } from "lucide";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { useAgents } from "../agents";
import { useAccess } from "../operator";
import { linkTo, route } from "../route";
import { Ago } from "../rows/ago";
import { FilterChips } from "../rows/filter_chips";
import { countOf, PAGE_SIZE, STATE_CHOICES, WAITING, type RowFilters } from "../rows/query";
import { RowList } from "../rows/row_list";
import { TaskRows } from "../rows/task_rows";
import { session } from "../session";
import { useKeys } from "../shell/keys";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { AT } from "../ui/command";
import { EmptyState } from "../ui/empty_state";
import { Icon } from "../ui/icon";
import { Skeleton } from "../ui/skeleton";

/** The tasks of all agents: those that wait for a person first; the address has the filters. */
export function TasksPage({ query }: { query: URLSearchParams }) {
  const filters: RowFilters = Object.fromEntries(query);
  const { token } = useStore(session);
  const list = useMemo(() => new TaskRows(filters), [String(query), token]);
  useEffect(() => {
    void list.open();
    return () => list.close();
  }, [list]);
  const { rows, waiting, hasWaiting, counts, total, next, searchedTo, error } = useStore(list);
  const agents = (useAgents().value ?? []).map((one) => one["id"] as string);
  const { isOperator, may } = useAccess();
  const set = (changes: RowFilters) => route.go(linkTo([], { ...filters, after: "", from: "", ...changes }));
  useListKeys();
  const shown = [...waiting, ...(rows ?? [])];
  const hasOwners = new Set(shown.map(({ owner }) => owner)).size > 1;
  const isFiltered = Object.values(filters).some(Boolean);
  const from = Number(filters.from) || 0;
  // A search reads many tasks in parts: behind the last page of one, it goes on with older tasks.
  const isPartShown = searchedTo !== "" && from + (rows?.length ?? 0) >= total;
  return (
    <section class="page">
      <PageHead title="Tasks">
        <SearchField key={filters.q} text={filters.q ?? ""} onSearch={(q) => set({ q })} />
      </PageHead>
      <div class="filter-bar">
        <StateChips counts={counts} chosen={filters.state ?? ""} onChoose={(state) => set({ state })} />
        <FilterChips filters={filters} agents={agents} isOperator={isOperator} onChange={set} />
      </div>
      {error && <p class="error" role="alert">{error}</p>}
      {rows === null && !error && <Skeleton lines={9} />}
      {rows?.length === 0 && !hasWaiting && !next && <Nothing isFiltered={isFiltered} mayAsk={may("SendMessage")} onClear={() => route.go("#/")} />}
      {hasWaiting && (
        <section class="part">
          <h2 class="part-head">
            Waits for a person
            <span class="count">{countOf(counts, WAITING)}</span>
            <span class="grow" />
            <a href="#/inbox">Answer in the inbox</a>
          </h2>
          <RowList rows={waiting} label="Tasks that wait for a person" hasOwners={hasOwners} />
        </section>
      )}
      {!!rows?.length && (
        <section class="part">
          {hasWaiting && <h2 class="part-head">All others</h2>}
          <RowList rows={rows} label="Tasks" hasOwners={hasOwners} />
        </section>
      )}
      {rows && (total > 0 || next) && (
        <div class="actions">
          <span class="hint grow number">
            {rows.length < total ? `${from + 1}–${from + rows.length} of ${total.toLocaleString()} tasks` : `${total.toLocaleString()} tasks`}
            {searchedTo && <> among those since <Ago time={searchedTo} /></>}
          </span>
          {filters.after && <a class="button plain" href={linkTo([], { ...filters, after: "", from: "" })}>First page</a>}
          {next && isPartShown && <a class="button plain" href={linkTo([], { ...filters, after: next, from: "" })}>Search older tasks</a>}
          {next && !isPartShown && <a class="button plain" href={linkTo([], { ...filters, after: next, from: String(from + PAGE_SIZE) })}>Next page</a>}
        </div>
      )}
    </section>
  );
}

/** How many tasks are in each state; one is chosen, or all. States without tasks are left out. */
function StateChips({ counts, chosen, onChoose }: { counts: Readonly<Record<string, number>>; chosen: string; onChoose: (state: string) => void }) {
  const all = Object.values(counts).reduce((total, count) => total + count, 0);
  const found = STATE_CHOICES.filter(([name, , states]) => name === chosen || countOf(counts, states) > 0);
  return (
    <div class="chips" role="group" aria-label="States">
      <button type="button" class="chip" aria-pressed={!chosen} onClick={() => onChoose("")}>
        All <span class="number">{all.toLocaleString()}</span>
      </button>
      {found.map(([name, title, states]) => (
        <button key={name} type="button" class="chip" aria-pressed={name === chosen} onClick={() => onChoose(name === chosen ? "" : name)}>
          {title} <span class="number">{countOf(counts, states).toLocaleString()}</span>
        </button>
      ))}
    </div>
  );
}

function SearchField({ text, onSearch }: { text: string; onSearch: (text: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => field.current?.focus() });
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => { event.preventDefault(); onSearch(field.current!.value.trim()); }}
    >
      <Icon of={Search} />
      <input
        ref={field}
        type="search"
        name="q"
        maxLength={200}
        aria-label="Search tasks"
        placeholder="Search by words or id"
        defaultValue={text}
        autocomplete="off"
        onKeyDown={({ key }) => key === "Escape" && field.current!.blur()}
        // Its cross empties it.
        onInput={({ currentTarget }) => currentTarget.value === "" && text && onSearch("")}
      />
    </form>
  );
}

function Nothing({ isFiltered, mayAsk, onClear }: { isFiltered: boolean; mayAsk: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <EmptyState icon={Search} title="No task matches" actions={<button type="button" class="plain" onClick={onClear}>Clear filters</button>}>
        No task has all of this. Remove a filter, or search for fewer words.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={ListChecks} title="No tasks yet" {...(mayAsk && { actions: <a class="button" href="#/chat">Start a chat</a>, command: `headrace send "Hello"${AT}` })}>
      Whatever anybody asks an agent appears here at once, over any protocol.
    </EmptyState>
  );
}

/** j and k move between the rows; Enter opens the one that has the focus, as it is a link. */
function useListKeys(): void {
  const move = (step: number) => {
    const rows = [...document.querySelectorAll<HTMLElement>("main .row")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + step))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
}
