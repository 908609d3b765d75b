import { useEffect, useState } from "preact/hooks";

import { fetchJson, type Json } from "../gateway";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { StateDot } from "../task/state_dot";
import { stateName } from "../task/timeline";

const STATES = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"];
const EVERY = 3_000;

/** The tasks of an agent, the latest first; the address has the filters. */
export function TasksPage({ query }: { query: URLSearchParams }) {
  const { value: listed, error: unlisted } = useLoaded("agents", (signal) => fetchJson("v1/agents", { signal }));
  const agents: Json[] = listed?.["agents"] ?? [];
  const asked = Object.fromEntries(query);
  const agent = asked["agent"] ?? (agents.find((one) => one["default"]) ?? agents[0])?.["id"] ?? "";
  const tick = useTicks(!asked["page"]);
  const { value, error } = useLoaded(`${agent} ${query} ${tick}`, (signal) => listTasks(agent, asked, signal));
  const tasks: Json[] = value?.["tasks"] ?? [];
  const set = (changes: Record<string, string>) => route.go(linkTo(["tasks"], { ...asked, agent, page: "", ...changes }));
  return (
    <section class="page">
      <h1>Tasks</h1>
      <div class="filters">
        <label>
          Agent
          <select value={agent} onChange={({ currentTarget }) => set({ agent: currentTarget.value })}>
            {agents.map((one) => (
              <option key={one["id"]}>{one["id"]}</option>
            ))}
          </select>
        </label>
        <label>
          State
          <select value={asked["status"] ?? ""} onChange={({ currentTarget }) => set({ status: currentTarget.value })}>
            <option value="">all</option>
            {STATES.map((state) => (
              <option key={state} value={state}>{stateName(state)}</option>
            ))}
          </select>
        </label>
        <label>
          Context
          <input value={asked["contextId"] ?? ""} placeholder="id of a context or thread" onChange={({ currentTarget }) => set({ contextId: currentTarget.value.trim() })} />
        </label>
        <label>
          Changed after
          <input type="datetime-local" value={asked["after"] ?? ""} onChange={({ currentTarget }) => set({ after: currentTarget.value })} />
        </label>
      </div>
      {(error || unlisted) && <p class="error" role="alert">{error || unlisted}</p>}
      {value && tasks.length === 0 && <p class="hint">No task matches.</p>}
      {tasks.length > 0 && (
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">State</th>
              <th scope="col">Changed</th>
              <th scope="col" class="wide">Context</th>
            </tr>
          </thead>
          <tbody>
            {tasks.map(({ id, status, contextId }) => (
              <tr key={id}>
                <td class="mono id"><a href={linkTo(["tasks", agent, id])}>{id}</a></td>
                <td><StateDot state={status.state} />{stateName(status.state)}</td>
                <td class="soft">{new Date(status.timestamp).toLocaleString()}</td>
                <td class="wide mono id"><a href={linkTo(["chat", agent, contextId])}>{contextId}</a></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div class="actions">
        {value && <span class="hint grow">{value["totalSize"]} tasks</span>}
        {asked["page"] && <a class="button plain" href={linkTo(["tasks"], { ...asked, page: "" })}>First page</a>}
        {value?.["nextPageToken"] && (
          <a class="button plain" href={linkTo(["tasks"], { ...asked, agent, page: value["nextPageToken"] })}>Next page</a>
        )}
      </div>
    </section>
  );
}

async function listTasks(agent: string, asked: Record<string, string>, signal: AbortSignal): Promise<Json | null> {
  if (!agent) return null;
  const { status = "", contextId = "", after = "", page = "" } = asked;
  const given = {
    status: status && `TASK_STATE_${status}`,
    contextId,
    statusTimestampAfter: after && new Date(after).toISOString(),
    pageToken: page,
    pageSize: "50",
    historyLength: "0",
  };
  const set = Object.entries(given).filter(([, value]) => value !== "");
  return fetchJson(`v1/agents/${encodeURIComponent(agent)}/tasks?${new URLSearchParams(set)}`, { signal });
}

/** Counts up every few seconds while the page is in view. */
function useTicks(isOn: boolean): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => document.hidden || setTick((count) => count + 1), EVERY);
    return () => clearInterval(timer);
  }, [isOn]);
  return tick;
}
