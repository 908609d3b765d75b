import { useEffect, useMemo } from "preact/hooks";

import { Choice } from "../choice";
import { fetchJson, type Json } from "../gateway";
import { useLoaded } from "../loaded";
import { useAccess } from "../operator";
import { linkTo, route } from "../route";
import { session } from "../session";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { StateDot } from "../task/state_dot";
import { stateName } from "../task/timeline";
import { TaskList } from "../task_list";

const STATES = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"];

/** The tasks of an agent, the latest first; the address has the filters. */
export function TasksPage({ query }: { query: URLSearchParams }) {
  const { value: listed, error: unlisted } = useLoaded("agents", (signal) => fetchJson("v1/agents", { signal }));
  const agents: Json[] = listed?.["agents"] ?? [];
  const asked = Object.fromEntries(query);
  const agent = asked["agent"] ?? (agents.find((one) => one["default"]) ?? agents[0])?.["id"] ?? "";
  const { token } = useStore(session);
  const { isOperator } = useAccess();
  const list = useMemo(() => new TaskList(agent, asked), [agent, String(query), token]);
  useEffect(() => {
    void list.open();
    return () => list.close();
  }, [list]);
  const { tasks, total, next, error } = useStore(list);
  const set = (changes: Record<string, string>) => route.go(linkTo(["tasks"], { ...asked, agent, page: "", ...changes }));
  return (
    <section class="page">
      <PageHead title="Tasks" />
      {/* Fields keep what is typed while the list changes under them; another address replaces them. */}
      <div class="filters">
        <Choice label="Agent" options={agents.map((one) => one["id"])} chosen={agent} onChoose={(id) => set({ agent: id })} />
        <Choice label="State" options={STATES} chosen={asked["status"] ?? ""} none="all" text={stateName} onChoose={(status) => set({ status })} />
        <label>
          Context
          <input key={asked["contextId"]} defaultValue={asked["contextId"] ?? ""} placeholder="id of a context or thread" onChange={({ currentTarget }) => set({ contextId: currentTarget.value.trim() })} />
        </label>
        {isOperator && (
          <label>
            Owner
            <input name="owner" key={asked["owner"]} defaultValue={asked["owner"] ?? ""} placeholder="of any owner" onChange={({ currentTarget }) => set({ owner: currentTarget.value.trim() })} />
          </label>
        )}
        <label>
          Changed after
          <input type="datetime-local" value={asked["after"] ?? ""} onChange={({ currentTarget }) => set({ after: currentTarget.value })} />
        </label>
      </div>
      {(error || unlisted) && <p class="error" role="alert">{error || unlisted}</p>}
      {tasks?.length === 0 && <p class="hint">No task matches.</p>}
      {!!tasks?.length && (
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
            {tasks.map(({ id, state, time, contextId }) => (
              <tr key={id}>
                <td class="mono id"><a href={linkTo(["tasks", agent, id])}>{id}</a></td>
                <td><StateDot state={state} />{stateName(state)}</td>
                <td class="soft">{new Date(time).toLocaleString()}</td>
                <td class="wide mono id"><a href={linkTo(["chat", agent, contextId])}>{contextId}</a></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div class="actions">
        {tasks && <span class="hint grow">{total} tasks</span>}
        {asked["page"] && <a class="button plain" href={linkTo(["tasks"], { ...asked, page: "" })}>First page</a>}
        {next && (
          <a class="button plain" href={linkTo(["tasks"], { ...asked, agent, page: next })}>Next page</a>
        )}
      </div>
    </section>
  );
}
