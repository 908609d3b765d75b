import { useState } from "preact/hooks";

import { Confirm } from "../confirm";
import { postJson, type Json } from "../gateway";
import { Table } from "../table";

/** The workers that take runs: to drain one, as before its machine is stopped. */
export function Workers({ workers }: { workers: Json[] }) {
  const [asked, setAsked] = useState("");
  const [outcome, setOutcome] = useState("");
  const drain = async () => {
    const { worker, runs } = await postJson(`v1/workers/${encodeURIComponent(asked)}:drain`, {});
    setOutcome(`${worker} starts no more runs; ${runs === 1 ? "one run is" : `${runs} runs are`} active.`);
  };
  return (
    <>
      <Table title="Workers" heads={["Worker", "Action", "Agents"]} empty="No worker is running.">
        {workers.map((worker) => (
          <tr key={worker["id"]}>
            <th scope="row" class="mono">{worker["id"]}</th>
            <td>
              <button type="button" class="plain" aria-label={`Drain ${worker["id"]}`} onClick={() => setAsked(worker["id"])}>
                Drain
              </button>
            </td>
            <td class="soft">{worker["agents"].join(", ")}</td>
          </tr>
        ))}
      </Table>
      <p class="hint drained" role="status">{outcome}</p>
      {asked && (
        <Confirm title={`Drain ${asked}?`} action="Drain" onConfirm={drain} onClose={() => setAsked("")}>
          <p>It starts no more runs and exits after its active ones. Waiting runs go to other workers.</p>
        </Confirm>
      )}
    </>
  );
}
