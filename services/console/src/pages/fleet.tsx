import { useEffect, useMemo } from "preact/hooks";

import { Figures } from "../figures";
import { FleetState } from "../fleet_state";
import type { Json } from "../gateway";
import { linkTo } from "../route";
import { session } from "../session";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { Table } from "../table";
import { Versions } from "../versions/versions";

/** The fleet as it is now: agents, and for operators what they run on. */
export function FleetPage() {
  const { token } = useStore(session);
  const fleet = useMemo(() => new FleetState(), [token]);
  useEffect(() => {
    void fleet.open();
    return () => fleet.close();
  }, [fleet]);
  const { state, error } = useStore(fleet);
  const { agents = [], workers, queues = [], ranges = [], streams = [], rates } = state ?? {};
  return (
    <section class="page">
      <PageHead title="Agents" />
      {error && <p class="error" role="alert">{error}</p>}
      {rates && <FleetFigures state={state!} />}
      {state && (
        <Table title="Agents" heads={["Agent", "State", "Waiting", "Running", "Description"]} empty="No agent is registered.">
          {agents.map((agent: Json) => (
            <AgentRow key={agent["name"]} agent={agent} queues={queues} />
          ))}
        </Table>
      )}
      {workers && <Versions agents={agents.map((one: Json) => one["name"])} />}
      {workers && (
        <Table title="Workers" heads={["Worker", "Heartbeat", "Agents"]} empty="No worker is running.">
          {workers.map((worker: Json) => (
            <tr key={worker["id"]}>
              <th scope="row" class="mono">{worker["id"]}</th>
              <td>{Number(worker["heartbeatSeconds"]).toFixed(0)} s ago</td>
              <td class="soft">{worker["agents"].join(", ")}</td>
            </tr>
          ))}
        </Table>
      )}
      {workers && (
        <Table title="Streams" heads={["Stream", "Messages", "Size", "Limit", "Applied by task state"]} empty="No stream.">
          {streams.map((stream: Json) => (
            <tr key={stream["name"]}>
              <th scope="row" class="mono">{stream["name"]}</th>
              <td>{stream["messages"].toLocaleString()}</td>
              <td>{sizeOf(stream["bytes"])}</td>
              <td>{stream["maxBytes"] === null ? "none" : sizeOf(stream["maxBytes"])}</td>
              <td>{lagOf(ranges.find((range: Json) => range["stream"] === stream["name"]))}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

function FleetFigures({ state }: { state: Json }) {
  const { agents, workers, queues, rates } = state;
  const sum = (name: string) => queues.reduce((total: number, queue: Json) => total + queue[name], 0);
  const figures = {
    "agents available": `${agents.filter((one: Json) => one["available"]).length} of ${agents.length}`,
    workers: workers.length,
    "runs waiting": sum("waiting"),
    "runs at work": sum("running"),
    "runs per second": rates["runsPerSecond"]?.toFixed(1) ?? "–",
    "events per second": rates["entriesPerSecond"]?.toFixed(1) ?? "–",
  };
  return <Figures of={figures} />;
}

function AgentRow({ agent, queues }: { agent: Json; queues: Json[] }) {
  const own = queues.filter((queue) => queue["agent"] === agent["name"]);
  const sum = (name: string) => own.reduce((total, queue) => total + queue[name], 0) || "";
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(["chat", agent["name"]])}>{agent["name"]}</a>
      </th>
      <td>
        <span class={agent["available"] ? "dot good" : "dot bad"} aria-hidden="true" />
        {agent["available"] ? "available" : "no worker"}
      </td>
      <td>{sum("waiting")}</td>
      <td>{sum("running")}</td>
      <td class="soft">{agent["description"]}</td>
    </tr>
  );
}

function lagOf(range: Json | undefined): string {
  if (!range) return "";
  if (range["lag"] === null) return "task state does not answer";
  return range["lag"] === 0 ? "all" : `${range["lag"]} behind`;
}

const UNITS = ["B", "KB", "MB", "GB", "TB"];

function sizeOf(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${(bytes / 1000 ** unit).toFixed(unit === 0 ? 0 : 1)} ${UNITS[unit]}`;
}
