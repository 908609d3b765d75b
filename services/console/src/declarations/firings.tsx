import type { Json } from "../gateway";
import { linkTo } from "../route";
import { Table } from "../table";

const HEADS = ["Fired", "Outcome", "Task", "Why it began none"];

/** The last firings of a trigger or schedule, the latest first. Those of a trigger have all begun their tasks. */
export function Firings({ firings, agent }: { firings: Json[]; agent: string }) {
  return (
    <Table title="Last firings" heads={HEADS} empty="It has not fired yet.">
      {firings.map((one) => (
        <tr key={one["key"]}>
          <td>{new Date(one["at"]).toLocaleString()}</td>
          <td>{one["outcome"] ?? "began"}</td>
          <td class={one["task"] ? "mono id" : ""}>
            {!one["task"] && <span class="soft only-narrow why">{one["reason"]}</span>}
            {one["task"] && <a href={linkTo(["tasks", one["agent"] ?? agent, one["task"]])}>{one["task"]}</a>}
          </td>
          <td class="soft">{one["reason"]}</td>
        </tr>
      ))}
    </Table>
  );
}
