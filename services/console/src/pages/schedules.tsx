import { BackFill } from "../declarations/back_fill";
import type { Field } from "../declarations/fields";
import { EditedDeclaration, NewDeclaration, OneDeclaration, type Kind } from "../declarations/pages";
import { useRefreshed } from "../declarations/refreshed";
import { DeclaredState } from "../declarations/state";
import { fetchJson, type Json } from "../gateway";
import { linkTo } from "../route";
import { Table } from "../table";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "text", isRequired: true },
  { name: "message", label: "Message", kind: "parts", isRequired: true, hint: "Text, or a JSON list of A2A Parts with text or data" },
  { name: "every", label: "Every", kind: "text", hint: "Such as 90s, 15m or 1h30m. Exactly one of Every, Cron and At" },
  { name: "cron", label: "Cron", kind: "text", hint: "Five fields, or six with seconds first" },
  { name: "timeZone", label: "Time zone of Cron", kind: "text", hint: "Such as Europe/Paris; UTC by default" },
  { name: "at", label: "At", kind: "time", hint: "Once, in your time zone" },
  { name: "overlap", label: "While the previous task has not ended", kind: "choice", options: ["skip", "queue", "replace"], hint: "skip by default" },
  { name: "maxQueued", label: "Firings that wait at most", kind: "number", hint: "With queue only; 10 by default" },
  { name: "jitter", label: "Jitter", kind: "number", hint: "Maximum random delay in seconds" },
  { name: "endAt", label: "End at", kind: "time", hint: "It does not fire from then on; in your time zone" },
  { name: "maxFirings", label: "Maximum number of tasks", kind: "number" },
  { name: "contextId", label: "Context of the tasks", kind: "text", hint: "By default each task has its own" },
  { name: "priority", label: "Priority", kind: "choice", options: ["high", "normal", "low"] },
  { name: "answers", label: "Answers", kind: "json", hint: 'What is published of the tasks, such as {"subject": "stock.counted"}' },
];

const SCHEDULE: Kind = {
  word: "schedule",
  plural: "schedules",
  fields: FIELDS,
  actions: [
    { name: "run", verb: "Run now", says: "It fires once, besides its own times.", isOffered: () => true },
    { name: "pause", verb: "Pause", says: "It does not fire until it is resumed.", isOffered: ({ state }) => state === "active" },
    { name: "resume", verb: "Resume", says: "It fires at its next time.", isOffered: ({ state }) => state === "paused" },
  ],
  afterDeletion: "Tasks that it began continue.",
  afterChange: "A change restarts the time between firings.",
  figuresOf: (one) => ({
    state: <DeclaredState state={one["state"]} ended={one["ended"]} />,
    when: whenOf(one),
    "next time": nextOf(one),
    "firings waiting": one["waiting"],
    "tasks begun": one["began"],
  }),
};

/** Schedules: all of them, or one with its firings; the address says which. */
export function SchedulesPage({ name, query }: { name: string; query: URLSearchParams }) {
  return <section class="page">{viewOf(name, query)}</section>;
}

function viewOf(name: string, query: URLSearchParams) {
  const named = { kind: SCHEDULE, name, owner: query.get("owner") ?? "" };
  if (query.has("new")) return <NewDeclaration kind={SCHEDULE} />;
  if (!name) return <ScheduleList after={query.get("after") ?? ""} />;
  if (query.has("edit")) return <EditedDeclaration {...named} />;
  if (query.has("fill")) return <BackFill {...named} />;
  const linksOf = ({ cron }: Json) => cron && <a class="button plain" href={linkTo(["schedules", name], { owner: named.owner, fill: "1" })}>Back-fill</a>;
  return <OneDeclaration {...named} links={linksOf} />;
}

function ScheduleList({ after }: { after: string }) {
  const asked = new URLSearchParams(after ? { after } : {});
  const { value, error } = useRefreshed(`schedules ${after}`, (signal) => fetchJson(`v1/schedules?${asked}`, { signal }));
  return (
    <>
      <h1>Schedules</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <Table title="Tasks that begin by the clock" heads={["Schedule", "State", "When", "Next", "Agent", "Owner"]} empty="No schedule yet.">
          {value["schedules"].map((one: Json) => (
            <tr key={`${one["owner"]} ${one["name"]}`}>
              <th scope="row"><a href={linkTo(["schedules", one["name"]], { owner: one["owner"] })}>{one["name"]}</a></th>
              <td><DeclaredState state={one["state"]} ended={one["ended"]} /></td>
              <td class="mono">{whenOf(one)}</td>
              <td>{nextOf(one)}</td>
              <td>{one["agent"]}</td>
              <td class="soft">{one["owner"]}</td>
            </tr>
          ))}
        </Table>
      )}
      <div class="actions">
        <a class="button" href={linkTo(["schedules"], { new: "1" })}>New schedule</a>
        {after && <a class="button plain" href={linkTo(["schedules"])}>First page</a>}
        {value?.["next"] && <a class="button plain" href={linkTo(["schedules"], { after: String(value["next"]) })}>Next page</a>}
      </div>
    </>
  );
}

/** Returns when a schedule fires next, without its jitter. */
function nextOf({ next }: Json): string {
  return next ? new Date(next).toLocaleString() : "–";
}

/** Returns when a schedule fires, in words. */
function whenOf({ at, every, cron, timeZone }: Json): string {
  if (at) return `once at ${new Date(at).toLocaleString()}`;
  return every ? `every ${every}` : `${cron} ${timeZone ?? "UTC"}`;
}
