import { fetchJson, type Json } from "../gateway";
import { useLoaded } from "../loaded";
import { linkTo } from "../route";
import { Table } from "../table";

const HEADS = ["Receiver", "Task", "Attempts", "Next attempt", "Last error"];

/** Webhooks that have events to deliver, the oldest first. */
export function WebhookDeliveries() {
  const { value, error } = useLoaded("webhooks", (signal) => fetchJson("v1/webhook-deliveries", { signal }));
  const deliveries: Json[] = value?.["deliveries"] ?? [];
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      <Table title="Webhooks" heads={HEADS} empty="No webhook waits for a delivery.">
        {deliveries.map((one) => (
          <tr key={one["id"]}>
            <th scope="row">{one["receiver"] ?? "deleted"}</th>
            <td class="mono id"><a href={linkTo(["tasks", one["agent"], one["task"]])}>{one["task"]}</a></td>
            <td>{one["attempts"]}</td>
            <td>{one["due"] ? new Date(one["due"]).toLocaleTimeString() : ""}</td>
            <td class="soft">{one["lastError"]}</td>
          </tr>
        ))}
      </Table>
      {value?.["next"] && <p class="hint">These are the oldest {deliveries.length}.</p>}
    </>
  );
}
