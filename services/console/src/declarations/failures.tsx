import type { Json } from "../gateway";
import { Table } from "../table";

const HEADS = ["Given up", "Outcome", "Why", "Place in its stream"];
const OUTCOMES: Record<string, string> = { letter: "dead letter", dropped: "lost" };

/** The last events of a trigger that began no task, the latest first. */
export function Failures({ failures }: { failures: Json[] }) {
  if (failures.length === 0) return null;
  return (
    <Table title="Last events that began no task" heads={HEADS} empty="">
      {failures.map((one, index) => (
        <tr key={index}>
          <td>{new Date(one["at"]).toLocaleString()}</td>
          <td>{OUTCOMES[one["outcome"]] ?? one["outcome"]}</td>
          <td>{one["reason"]}</td>
          <td class="mono">{one["stream"] ? `${one["stream"]} ${one["sequence"]}` : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}
