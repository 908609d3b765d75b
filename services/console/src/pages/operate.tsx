import { useEffect, useMemo } from "preact/hooks";

import { FleetState } from "../fleet_state";
import type { Json } from "../gateway";
import { DeadLetters } from "../operate/dead_letters";
import { VersionActions } from "../operate/version_actions";
import { WebhookDeliveries } from "../operate/webhooks";
import { Workers } from "../operate/workers";
import { session } from "../session";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { Table } from "../table";
import { Versions } from "../versions/versions";

/** What operators look after: queues, workers, and what was given up. */
export function OperatePage({ query }: { query: URLSearchParams }) {
  const { token } = useStore(session);
  const fleet = useMemo(() => new FleetState(), [token]);
  useEffect(() => {
    void fleet.open();
    return () => fleet.close();
  }, [fleet]);
  const { state, error } = useStore(fleet);
  const isRefused = state !== null && !("queues" in state);
  return (
    <section class="page">
      <PageHead title="Operate" />
      {error && <p class="error" role="alert">{error}</p>}
      {isRefused && <p class="error" role="alert">This page is for operators: it needs a role with operator = true and GetFleet on all agents.</p>}
      {state?.["queues"] && (
        <>
          <Table title="Queues" heads={["Agent", "Priority", "Waiting", "Running", "Oldest waits"]} empty="No queue.">
            {state["queues"].map((queue: Json) => (
              <tr key={`${queue["agent"]} ${queue["priority"]}`}>
                <th scope="row">{queue["agent"]}</th>
                <td>{queue["priority"]}</td>
                <td>{queue["waiting"]}</td>
                <td>{queue["running"]}</td>
                <td>{queue["oldestSeconds"] === null ? "" : `${queue["oldestSeconds"].toFixed(0)} s`}</td>
              </tr>
            ))}
          </Table>
          <Workers workers={state["workers"]} />
          <Versions
            agents={state["agents"].map((one: Json) => one["name"])}
            actionsOf={(agent, version, all, reload) => <VersionActions agent={agent} version={version} all={all} onDone={reload} />}
          />
          <WebhookDeliveries />
          <DeadLetters asked={Object.fromEntries(query)} />
        </>
      )}
    </section>
  );
}
