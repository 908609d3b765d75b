import { useState } from "preact/hooks";

import { Choice } from "../choice";
import { Confirm } from "../confirm";
import { fetchJson, postJson, type Json } from "../gateway";
import { JsonTree } from "../json_tree";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { Skeleton } from "../ui/skeleton";

const KINDS = ["run", "run-request", "entry", "push", "event", "other"];
const PAGE_SIZE = 50;

interface Action {
  name: "retry" | "drop";
  ids: number[];
}

/** What was given up: to look at, to retry or to drop. The address has the filters. */
export function DeadLetters({ asked }: { asked: Readonly<Record<string, string>> }) {
  const { kind = "", agent = "", task = "", after = "" } = asked;
  const [round, setRound] = useState(0);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [shown, setShown] = useState(0);
  const [action, setAction] = useState<Action | null>(null);
  const [results, setResults] = useState<Json[]>([]);
  const given = Object.entries({ kind, agent, task, after, limit: String(PAGE_SIZE) }).filter(([, value]) => value);
  const query = new URLSearchParams(given).toString();
  const { value, error } = useLoaded(query, (signal) => fetchJson(`v1/dead-letters?${query}`, { signal }), round);
  const letters: Json[] = value?.["letters"] ?? [];
  const ids = letters.map((one) => one["id"]).filter((id) => chosen.has(id));
  const set = (changes: Record<string, string>) => route.go(linkTo(["operate"], { ...asked, after: "", ...changes }));
  const choose = (changed: number[], isChosen: boolean) => {
    const next = new Set(chosen);
    for (const id of changed) isChosen ? next.add(id) : next.delete(id);
    setChosen(next);
  };
  const act = async ({ name, ids }: Action) => {
    setResults((await postJson(`v1/dead-letters:${name}`, { ids }))["results"]);
    setChosen(new Set());
    setShown(0);
    setRound(round + 1);
  };
  if (!error && letters.length === 0 && !kind && !agent && !task && !after && results.length === 0) {
    return (
      <section class="part">
        <h2>Dead letters</h2>
        {value ? <p class="hint">Nothing has been given up.</p> : <Skeleton lines={1} />}
      </section>
    );
  }
  return (
    <section class="part">
      <h2>Dead letters</h2>
      <div class="filters">
        <Choice label="Kind" options={KINDS} chosen={kind} none="all" onChoose={(one) => set({ kind: one })} />
        <label>
          Agent
          <input value={agent} onChange={({ currentTarget }) => set({ agent: currentTarget.value.trim() })} />
        </label>
        <label>
          Task
          <input value={task} onChange={({ currentTarget }) => set({ task: currentTarget.value.trim() })} />
        </label>
      </div>
      {error && <p class="error" role="alert">{error}</p>}
      <Results results={results} />
      {value && letters.length === 0 && <p class="hint">Nothing has been given up{value["next"] ? " on this page" : ""}.</p>}
      {letters.length > 0 && (
        <table class="letters">
          <thead>
            <tr>
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label="Select all on this page"
                  checked={ids.length === letters.length}
                  onChange={({ currentTarget }) => choose(letters.map((one) => one["id"]), currentTarget.checked)}
                />
              </th>
              <th scope="col">Letter</th>
              <th scope="col">Kind</th>
              <th scope="col">Agent</th>
              <th scope="col" class="wide">Task</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {letters.map((one) => [
              <tr key={one["id"]}>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Choose letter ${one["id"]}`}
                    checked={chosen.has(one["id"])}
                    onChange={({ currentTarget }) => choose([one["id"]], currentTarget.checked)}
                  />
                </td>
                <th scope="row">
                  <button type="button" class="link" aria-expanded={shown === one["id"]} onClick={() => setShown(shown === one["id"] ? 0 : one["id"])}>
                    {one["id"]}
                  </button>{" "}
                  <span class="soft">{new Date(one["at"]).toLocaleString()}</span>
                </th>
                <td>{one["kind"]}</td>
                <td>{one["agent"]}</td>
                <td class="wide mono id">{one["task"] && <a href={linkTo(["tasks", one["agent"], one["task"]])}>{one["task"]}</a>}</td>
                <td class="reason">{one["reason"]}</td>
              </tr>,
              shown === one["id"] && <tr key={`${shown} in full`}><td colSpan={6}><Letter listed={one} /></td></tr>,
            ])}
          </tbody>
        </table>
      )}
      <div class="actions">
        <span class="hint grow">{ids.length} chosen</span>
        <button type="button" class="plain" disabled={ids.length === 0} onClick={() => setAction({ name: "drop", ids })}>
          Drop
        </button>
        <button type="button" disabled={ids.length === 0} onClick={() => setAction({ name: "retry", ids })}>
          Retry
        </button>
        {after && <a class="button plain" href={linkTo(["operate"], { ...asked, after: "" })}>First page</a>}
        {value?.["next"] && <a class="button plain" href={linkTo(["operate"], { ...asked, after: String(value["next"]) })}>Next page</a>}
      </div>
      {action && (
        <Confirm
          title={`${action.name === "retry" ? "Retry" : "Drop"} ${counted(action.ids.length)}?`}
          action={action.name === "retry" ? "Retry" : "Drop"}
          onConfirm={() => act(action)}
          onClose={() => setAction(null)}
        >
          <p>
            {action.name === "retry"
              ? "The failed work is retried: a run as a new task of the same client. The dead letters are deleted."
              : "The dead letters are deleted without a retry."}
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** What became of each letter. */
function Results({ results }: { results: Json[] }) {
  return (
    <div role="status">
      {results.map(({ id, outcome, error }) => (
        <p key={id} class={error ? "error" : "hint"}>
          Letter {id}: {outcome ?? error.message}
        </p>
      ))}
    </div>
  );
}

/** One letter in full. */
function Letter({ listed }: { listed: Json }) {
  const { id, agent, task } = listed;
  const { value, error } = useLoaded(String(id), (signal) => fetchJson(`v1/dead-letters/${id}`, { signal }));
  return (
    <div class="card" role="region" aria-label={`Letter ${id}`} tabIndex={0}>
      {error && <p class="error" role="alert">{error}</p>}
      {task && <a class="button plain small" href={linkTo(["tasks", agent, task])}>Open its task</a>}
      {value && <JsonTree value={readable(value)} isOpen />}
    </div>
  );
}

/** Returns a letter with its body once: as text, if it is one. */
function readable({ bodyBase64, ...letter }: Json): Json {
  return letter["body"] === null ? { ...letter, bodyBase64 } : letter;
}

function counted(letters: number): string {
  return letters === 1 ? "one dead letter" : `${letters} dead letters`;
}
