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
import { useAccess } from "../operator";
import { linkTo, route } from "../route";
import { Table } from "../table";

const PATH = "v1/triggers";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "text", isRequired: true },
  { name: "subject", label: "Subject", kind: "text", isRequired: true, hint: "NATS subject of the events, such as orders.created; * and > may follow its first token" },
  { name: "stream", label: "Stream", kind: "text", hint: "The JetStream stream that stores the events. Without it they come at most once" },
  { name: "text", label: "Text of the message", kind: "area", hint: "Template, such as: Check order {body.id}" },
  { name: "data", label: "Data of the message", kind: "json", hint: 'Paths by member, such as {"lines": "body.lines"}' },
  { name: "filter", label: "Filter", kind: "json", hint: 'Conditions by path, such as {"body.total": {"min": 100}}' },
  { name: "answers", label: "Answers", kind: "json", hint: 'What is published of the tasks, such as {"subject": "orders.checked", "stream": "ORDERS"}' },
  { name: "context", label: "Context of the tasks", kind: "text", hint: "Template; by default each task has its own" },
  { name: "priority", label: "Priority", kind: "choice", options: ["high", "normal", "low"] },
  { name: "limit", label: "Events in progress at a time", kind: "number", hint: "64 by default" },
];

/** Members of the answer that are not of the declaration. */
const ADDED = new Set(["name", "owner", "since", "waiting", "firings"]);

/** Triggers: all of them, or one with its firings; the address says which. */
export function TriggersPage({ name, query }: { name: string; query: URLSearchParams }) {
  return <section class="page">{viewOf(name, query)}</section>;
}

function viewOf(name: string, query: URLSearchParams) {
  if (query.has("new")) return <NewTrigger />;
  if (!name) return <TriggerList />;
  return query.has("edit") ? <EditedTrigger name={name} /> : <OneTrigger name={name} />;
}

function pathOf(name: string): string {
  return `${PATH}/${encodeURIComponent(name)}`;
}

function TriggerList() {
  const { value, error } = useRefreshed("triggers", (signal) => fetchJson(PATH, { signal }));
  return (
    <>
      <h1>Triggers</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <Table title="Tasks that begin with events" heads={["Trigger", "State", "Subject", "Agent", "Owner"]} empty="No trigger yet.">
          {value["triggers"].map((one: Json) => (
            <tr key={one["name"]}>
              <th scope="row"><a href={linkTo(["triggers", one["name"]])}>{one["name"]}</a></th>
              <td><DeclaredState state={stateOf(one)} /></td>
              <td class="mono">{one["subject"]}</td>
              <td>{one["agent"]}</td>
              <td class="soft">{one["owner"]}</td>
            </tr>
          ))}
        </Table>
      )}
      <div class="actions">
        <a class="button" href={linkTo(["triggers"], { new: "1" })}>New trigger</a>
      </div>
    </>
  );
}

function OneTrigger({ name }: { name: string }) {
  const path = pathOf(name);
  const { value, error, reload } = useRefreshed(path, (signal) => fetchJson(path, { signal }));
  const { isOperator } = useAccess();
  const act = async (action: string) => {
    await postJson(`${path}:${action}`, {});
    reload();
  };
  const remove = async () => {
    await fetchJson(path, { method: "DELETE" });
    route.go(linkTo(["triggers"]));
  };
  return (
    <>
      <h1>Trigger {name}</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <>
          <Figures
            of={{
              state: <DeclaredState state={stateOf(value)} />,
              subject: value["subject"],
              "events waiting": value["waiting"] ?? "–",
              "takes events since": new Date(value["since"]).toLocaleString(),
            }}
          />
          <div class="buttons">
            {value["stream"] && !value["paused"] && (
              <ConfirmedAction verb="Pause" name={name} onConfirm={() => act("pause")}>Events wait in their stream until it is resumed.</ConfirmedAction>
            )}
            {value["paused"] && (
              <ConfirmedAction verb="Resume" name={name} onConfirm={() => act("resume")}>Each event that waits begins its task.</ConfirmedAction>
            )}
            <a class="button plain" href={linkTo(["triggers", name], { edit: "1" })}>Edit</a>
            <ConfirmedAction verb="Delete" name={name} onConfirm={remove}>Tasks that it has begun go on; events that wait begin none.</ConfirmedAction>
            {isOperator && (
              <a class="button plain" href={linkTo(["operate"], { kind: "event", agent: value["agent"] })}>Dead letters</a>
            )}
          </div>
          <Firings firings={value["firings"]} agent={value["agent"]} />
          <section class="part">
            <h2>Definition</h2>
            <JsonTree value={declaredOf(value)} isOpen />
          </section>
        </>
      )}
    </>
  );
}

function EditedTrigger({ name }: { name: string }) {
  const path = pathOf(name);
  const { value, error } = useLoaded(path, (signal) => fetchJson(path, { signal }));
  const back = linkTo(["triggers", name]);
  const save = async (_: string, declaration: Json) => {
    await putJson(path, { ...declaration, paused: value?.["paused"] ?? false });
    route.go(back);
  };
  return (
    <>
      <h1>Trigger {name}</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && <DeclarationForm title={`Edit ${name}`} fields={FIELDS} old={value} back={back} onSave={save} />}
    </>
  );
}

function NewTrigger() {
  const save = async (name: string, declaration: Json) => {
    await putJson(pathOf(name), declaration);
    route.go(linkTo(["triggers", name]));
  };
  return (
    <>
      <h1>New trigger</h1>
      <DeclarationForm title="New trigger" fields={FIELDS} old={null} back={linkTo(["triggers"])} onSave={save} />
    </>
  );
}

/** Returns what the owner has declared, as PUT takes it. */
function declaredOf(one: Json): Json {
  return Object.fromEntries(Object.entries(one).filter(([name]) => !ADDED.has(name)));
}

function stateOf(one: Json): string {
  return one["paused"] ? "paused" : "active";
}
