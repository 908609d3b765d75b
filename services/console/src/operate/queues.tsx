import type { Json } from "../gateway";
import { Table } from "../table";

/** The queues with runs, the fullest first; those without are only counted. */
export function Queues({ queues }: { queues: Json[] }) {
  const busy = queues.filter((one) => one["waiting"] > 0 || one["running"] > 0);
  const idle = queues.length - busy.length;
  const sorted = busy.sort((one, other) => other["waiting"] - one["waiting"] || other["running"] - one["running"]);
  return (
    <>
      <Table title="Queues" heads={["Agent", "Priority", "Waiting", "Running", "Oldest waits"]} empty={idle === 1 ? "One queue, and it is empty." : `All ${idle} queues are empty.`}>
        {sorted.map((queue) => (
          <tr key={`${queue["agent"]} ${queue["priority"]}`}>
            <th scope="row">{queue["agent"]}</th>
            <td>{queue["priority"]}</td>
            <td class="number">{queue["waiting"]}</td>
            <td class="number">{queue["running"]}</td>
            <td class="number">{queue["oldestSeconds"] === null ? "" : `${queue["oldestSeconds"].toFixed(0)} s`}</td>
          </tr>
        ))}
      </Table>
      {busy.length > 0 && idle > 0 && <p class="hint below-table">{idle === 1 ? "One other queue is" : `${idle} other queues are`} empty.</p>}
    </>
  );
}
