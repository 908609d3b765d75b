import { fetchJson, type Json } from "../gateway";
import { useLoaded } from "../loaded";
import { linkTo } from "../route";

/** The agents of the fleet. */
export function FleetPage() {
  const { value, error } = useLoaded("agents", (signal) => fetchJson("v1/agents", { signal }));
  const agents: Json[] = value?.["agents"] ?? [];
  return (
    <section class="page">
      <h1>Fleet</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && agents.length === 0 && <p class="hint">No agent is registered.</p>}
      {agents.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col">State</th>
              <th scope="col" class="wide">
                Description
              </th>
            </tr>
          </thead>
          <tbody>
            {agents.map((agent) => (
              <AgentRow key={agent["id"]} agent={agent} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function AgentRow({ agent }: { agent: Json }) {
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(["chat", agent["id"]])}>{agent["id"]}</a>
        {agent["default"] && <span class="tag">default</span>}
      </th>
      <td>
        <span class={agent["available"] ? "dot good" : "dot bad"} aria-hidden="true" />
        {agent["available"] ? "available" : "no worker"}
      </td>
      <td class="wide soft">{agent["description"]}</td>
    </tr>
  );
}
