import { ConfirmedAction } from "../declarations/confirmed_action";
import type { Field } from "../declarations/fields";
import { Firings } from "../declarations/firings";
import { DeclarationForm } from "../declarations/form";
import { useRefreshed } from "../declarations/refreshed";
import { DeclaredState } from "../declarations/state";
import { Figures } from "../figures";
import { fetchJson, postJson, putJson, type Json } from "../gateway";
import { JsonTree } from "../json_tree";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { Table } from "../table";

const PATH = "v1/schedules";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "text", isRequired: true },
  { name: "message", label: "Message", kind: "parts", isRequired: true, hint: "Text, or a JSON list of A2A Parts with text or data" },
  { name: "every", label: "Every", kind: "text", hint: "Such as 90s, 15m or 1h30m. Exactly one of Every, Cron and At" },
  { name: "cron", label: "Cron", kind: "text", hint: "Five fields, or six with seconds first" },
  { name: "timeZone", label: "Time zone of Cron", kind: "text", hint: "Such as Europe/Paris; UTC by default" },
  { name: "at", label: "At", kind: "time", hint: "Once, in your time zone" },
  { name: "overlap", label: "While the task before has not ended", kind: "choice", options: ["skip", "queue", "replace"], hint: "skip by default" },
  { name: "maxQueued", label: "Firings that wait at most", kind: "number", hint: "With queue only; 10 by default" },
  { name: "jitter", label: "Jitter", kind: "number", hint: "Maximum random delay in seconds" },
  { name: "endAt", label: "End at", kind: "time", hint: "From then on it fires no more; in your time zone" },
  { name: "maxFirings", label: "Maximum number of tasks", kind: "number" },
  { name: "contextId", label: "Context of the tasks", kind: "text", hint: "By default each task has its own" },
  { name: "priority", label: "Priority", kind: "choice", options: ["high", "normal", "low"] },
  { name: "answers", label: "Answers", kind: "json", hint: 'What is published of the tasks, such as {"subject": "stock.counted"}' },
];

/** Schedules: all of them, or one with its firings; the address says which. */
export function SchedulesPage({ name, query }: { name: string; query: URLSearchParams }) {
  return <section class="page">{viewOf(name, query)}</section>;
}

function viewOf(name: string, query: URLSearchParams) {
  const owner = query.get("owner") ?? "";
  if (query.has("new")) return <NewSchedule />;
  if (!name) return <ScheduleList after={query.get("after") ?? ""} />;
  return query.has("edit") ? <EditedSchedule name={name} owner={owner} /> : <OneSchedule name={name} owner={owner} />;
}

function ScheduleList({ after }: { after: string }) {
  const asked = new URLSearchParams(after ? { after } : {});
  const { value, error } = useRefreshed(`schedules ${after}`, (signal) => fetchJson(`${PATH}?${asked}`, { signal }));
  return (
    <>
      <h1>Schedules</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <Table title="Tasks that begin by the clock" heads={["Schedule", "State", "When", "Agent", "Owner"]} empty="No schedule yet.">
          {value["schedules"].map((one: Json) => (
            <tr key={`${one["owner"]} ${one["name"]}`}>
              <th scope="row"><a href={linkTo(["schedules", one["name"]], { owner: one["owner"] })}>{one["name"]}</a></th>
              <td><DeclaredState state={one["state"]} ended={one["ended"]} /></td>
              <td class="mono">{whenOf(one)}</td>
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

/** A schedule, and whose it is. */
interface Named {
  name: string;
  /** Empty: the caller's. */
  owner: string;
}

/** Returns the path of a schedule, or of an action on it. */
function pathOf({ name, owner }: Named, action = ""): string {
  return PATH + `/${encodeURIComponent(name)}${action}${owner && `?${new URLSearchParams({ owner })}`}`;
}

function OneSchedule({ name, owner }: Named) {
  const path = pathOf({ name, owner });
  const { value, error, reload } = useRefreshed(path, (signal) => fetchJson(path, { signal }));
  const act = async (action: string, headers: Record<string, string> = {}) => {
    await postJson(pathOf({ name, owner }, `:${action}`), {}, headers);
    reload();
  };
  const remove = async () => {
    await fetchJson(path, { method: "DELETE" });
    route.go(linkTo(["schedules"]));
  };
  return (
    <>
      <h1>Schedule {name}</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <>
          <Figures
            of={{
              state: <DeclaredState state={value["state"]} ended={value["ended"]} />,
              when: whenOf(value),
              "next time": value["next"] ? new Date(value["next"]).toLocaleString() : "–",
              "firings waiting": value["waiting"],
              "tasks begun": value["began"],
            }}
          />
          <div class="buttons">
            <ConfirmedAction verb="Run now" name={name} onConfirm={(key) => act("run", { "Idempotency-Key": key })}>
              It fires once, besides its own times.
            </ConfirmedAction>
            {value["state"] === "active" && (
              <ConfirmedAction verb="Pause" name={name} onConfirm={() => act("pause")}>It fires no more until it is resumed.</ConfirmedAction>
            )}
            {value["state"] === "paused" && (
              <ConfirmedAction verb="Resume" name={name} onConfirm={() => act("resume")}>It fires at its next time.</ConfirmedAction>
            )}
            <a class="button plain" href={linkTo(["schedules", name], { owner, edit: "1" })}>Edit</a>
            <ConfirmedAction verb="Delete" name={name} onConfirm={remove}>Tasks that it has begun stay.</ConfirmedAction>
          </div>
          <Firings firings={value["firings"]} agent={value["agent"]} />
          <Definition one={value} />
        </>
      )}
    </>
  );
}

function EditedSchedule({ name, owner }: Named) {
  const path = pathOf({ name, owner });
  const { value, error } = useLoaded(path, (signal) => fetchJson(path, { signal }));
  const back = linkTo(["schedules", name], { owner });
  const save = async (_: string, declaration: Json) => {
    await putJson(path, declaration);
    route.go(back);
  };
  return (
    <>
      <h1>Schedule {name}</h1>
      <p class="hint">A change starts the time between firings anew.</p>
      {error && <p class="error" role="alert">{error}</p>}
      {value && <DeclarationForm title={`Edit ${name}`} fields={FIELDS} old={value} back={back} onSave={save} />}
    </>
  );
}

function NewSchedule() {
  const save = async (name: string, declaration: Json) => {
    const { owner } = await putJson(pathOf({ name, owner: "" }), declaration);
    route.go(linkTo(["schedules", name], { owner }));
  };
  return (
    <>
      <h1>New schedule</h1>
      <DeclarationForm title="New schedule" fields={FIELDS} old={null} back={linkTo(["schedules"])} onSave={save} />
    </>
  );
}

function Definition({ one }: { one: Json }) {
  const stated = FIELDS.filter(({ name }) => one[name] !== null).map(({ name }) => [name, one[name]]);
  return (
    <section class="part">
      <h2>Definition</h2>
      <JsonTree value={Object.fromEntries(stated)} isOpen />
    </section>
  );
}

/** Returns when a schedule fires, in words. */
function whenOf({ at, every, cron, timeZone }: Json): string {
  if (at) return `once at ${new Date(at).toLocaleString()}`;
  return every ? `every ${every}` : `${cron} ${timeZone ?? "UTC"}`;
}
