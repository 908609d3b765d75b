import { useEffect, useMemo } from "preact/hooks";

import { FleetState } from "../fleet_state";
import type { Json } from "../gateway";
import { DeadLetters } from "../operate/dead_letters";
import { Problems } from "../operate/problems";
import { Queues } from "../operate/queues";
import { VersionActions } from "../operate/version_actions";
import { WebhookDeliveries } from "../operate/webhooks";
import { Workers } from "../operate/workers";
import { session } from "../session";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { Skeleton } from "../ui/skeleton";
import { Versions } from "../versions/versions";

/** What operators look after: first what is unwell, then queues, workers, versions, and what was given up. */
export function OperatePage({ query }: { query: URLSearchParams }) {
  const { token } = useStore(session);
  const fleet = useMemo(() => new FleetState(), [token]);
  useEffect(() => {
    void fleet.open();
    return () => fleet.close();
  }, [fleet]);
  const { state, error } = useStore(fleet);
  return (
    <section class="page">
      <PageHead title="Operate" />
      {error && <p class="error" role="alert">{error}</p>}
      {!state && !error && <Skeleton lines={6} />}
      {state?.["queues"] && (
        <>
          <Problems state={state} />
          <DeadLetters asked={Object.fromEntries(query)} />
          <WebhookDeliveries />
          <Queues queues={state["queues"]} />
          <Workers workers={state["workers"]} />
          <Versions
            agents={state["agents"].map((one: Json) => one["name"])}
            actionsOf={(agent, version, all, reload) => <VersionActions agent={agent} version={version} all={all} onDone={reload} />}
          />
        </>
      )}
    </section>
  );
}
