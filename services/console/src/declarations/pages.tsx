import { Plus, type IconNode } from "lucide";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { useAgents } from "../agents";
import { Figures } from "../figures";
import { fetchJson, postJson, putJson, type Json } from "../gateway";
import { JsonTree } from "../json_tree";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { PageHead } from "../shell/page_head";
import { Table } from "../table";
import { EmptyState } from "../ui/empty_state";
import { Icon } from "../ui/icon";
import { ConfirmedAction } from "./confirmed_action";
import { Failures } from "./failures";
import type { Field } from "./fields";
import { Firings } from "./firings";
import { DeclarationForm } from "./form";
import { useRefreshed } from "./refreshed";

/** What triggers and schedules differ in. */
export interface Kind {
  /** Its name in words. */
  word: string;
  /** Its name in the API and in addresses. */
  plural: string;
  fields: readonly Field[];
  actions: readonly Action[];
  /** What its deletion leaves. */
  afterDeletion: string;
  /** What a change does besides. */
  afterChange?: string;
  /** What they do together: the title of their list. */
  title: string;
  icon: IconNode;
  /** What one is for. */
  purpose: string;
  /** A command that creates one for an agent. */
  commandOf: (agent: string) => string;
  /** The list's columns between the state and the agent. */
  columns: readonly Column[];
  stateOf: (one: Json) => ComponentChildren;
  /** Figures of one, besides its state. */
  figuresOf: (one: Json) => Record<string, ComponentChildren>;
  /** Members that a change keeps and the form does not have. */
  keptOf?: (one: Json) => Json;
}

/** A column of the list. */
interface Column {
  head: string;
  class?: string;
  of: (one: Json) => ComponentChildren;
}

/** What is done to one by `POST …:{name}`. */
export interface Action {
  name: string;
  verb: string;
  explanation: string;
  isOffered: (one: Json) => boolean;
}

/** Which one it is. */
export interface Named {
  kind: Kind;
  name: string;
  /** Empty: the caller. */
  owner?: string;
}

/** An action that takes more than a confirmation. */
interface Asked {
  action: string;
  verb: string;
  fields: readonly Field[];
  hint: string;
  resultOf: (answer: Json) => string;
}

/** What the address says: all of them, one with its firings, or a form. `forms` are those of its kind alone, by parameter. */
export function DeclarationPages({ kind, name, query, forms = {}, links = () => null }: Pages) {
  const named = { kind, name, owner: query.get("owner") ?? "" };
  const form = Object.keys(forms).find((parameter) => query.has(parameter));
  return <section class="page">{shown()}</section>;

  function shown() {
    if (query.has("new")) return <NewDeclaration kind={kind} />;
    if (!name) return <DeclarationList kind={kind} after={query.get("after") ?? ""} />;
    if (query.has("edit")) return <EditedDeclaration {...named} />;
    if (form) return forms[form]!(named);
    return <OneDeclaration {...named} links={(one) => links(one, named)} />;
  }
}

interface Pages {
  kind: Kind;
  name: string;
  query: URLSearchParams;
  forms?: Record<string, (named: Named) => ComponentChildren>;
  links?: (one: Json, named: Named) => ComponentChildren;
}

function DeclarationList({ kind, after }: { kind: Kind; after: string }) {
  const { word, plural, columns } = kind;
  const path = `v1/${plural}?${new URLSearchParams(after ? { after } : {})}`;
  const { value, error } = useRefreshed(path, (signal) => fetchJson(path, { signal }));
  const heads = [capitalized(word), "State", ...columns.map(({ head }) => head), "Agent", "Owner"];
  return (
    <>
      <PageHead title={capitalized(plural)}>
        {!!value?.[plural].length && <NewButton kind={kind} />}
      </PageHead>
      {error && <p class="error" role="alert">{error}</p>}
      {value?.[plural].length === 0 && !after && <NoneYet kind={kind} />}
      {!!value?.[plural].length && (
        <Table title={kind.title} heads={heads} empty="">
          {value[plural].map((one: Json) => (
            <tr key={`${one["owner"]} ${one["name"]}`}>
              <th scope="row"><a href={linkTo([plural, one["name"]], { owner: one["owner"] })}>{one["name"]}</a></th>
              <td>{kind.stateOf(one)}</td>
              {columns.map((column) => <td key={column.head} class={column.class}>{column.of(one)}</td>)}
              <td>{one["agent"]}</td>
              <td class="soft">{one["owner"]}</td>
            </tr>
          ))}
        </Table>
      )}
      <div class="actions">
        {after && <a class="button plain" href={linkTo([plural])}>First page</a>}
        {value?.["next"] && <a class="button plain" href={linkTo([plural], { after: String(value["next"]) })}>Next page</a>}
      </div>
    </>
  );
}

function NewButton({ kind: { word, plural } }: { kind: Kind }) {
  return <a class="button" href={linkTo([plural], { new: "1" })}><Icon of={Plus} />New {word}</a>;
}

/** What they are for, and two ways to create one. */
function NoneYet({ kind }: { kind: Kind }) {
  const agent = useAgents().value?.[0]?.["id"] ?? "AGENT";
  return (
    <EmptyState icon={kind.icon} title={`No ${kind.word} yet`} actions={<NewButton kind={kind} />} command={kind.commandOf(agent)}>
      {kind.purpose}
    </EmptyState>
  );
}

/** One of them, live: its figures, its last firings and failures, and its definition. `links` come after its buttons. */
function OneDeclaration({ links, ...named }: Named & { links: (one: Json) => ComponentChildren }) {
  const { kind, name, owner = "" } = named;
  const path = pathOf(named);
  const { value, error, reload } = useRefreshed(path, (signal) => fetchJson(path, { signal }));
  const act = async (action: string, key: string) => {
    await postJson(pathOf(named, `:${action}`), {}, { "Idempotency-Key": key });
    reload();
  };
  const remove = async () => {
    await fetchJson(path, { method: "DELETE" });
    route.go(linkTo([kind.plural]));
  };
  return (
    <>
      <Heading kind={kind} name={name} error={error} />
      {value && (
        <>
          <Figures of={{ state: kind.stateOf(value), agent: <a href={linkTo([], { agent: value["agent"] })}>{value["agent"]}</a>, ...kind.figuresOf(value) }} />
          <div class="buttons">
            {kind.actions.filter((one) => one.isOffered(value)).map(({ name: action, verb, explanation }) => (
              <ConfirmedAction key={action} verb={verb} name={name} onConfirm={(key) => act(action, key)}>{explanation}</ConfirmedAction>
            ))}
            <a class="button plain" href={linkTo([kind.plural, name], { owner, edit: "1" })}>Edit</a>
            <ConfirmedAction verb="Delete" name={name} onConfirm={remove}>{kind.afterDeletion}</ConfirmedAction>
            {links(value)}
          </div>
          <Firings firings={value["firings"]} agent={value["agent"]} />
          <Failures failures={value["failures"] ?? []} />
          <section class="part">
            <h2>Definition</h2>
            <JsonTree value={definitionOf(kind, value)} isOpen />
          </section>
        </>
      )}
    </>
  );
}

/** The form for one of them that exists. */
function EditedDeclaration(named: Named) {
  const { kind, name, owner = "" } = named;
  const path = pathOf(named);
  const { value, error } = useLoaded(path, (signal) => fetchJson(path, { signal }));
  const back = linkTo([kind.plural, name], { owner });
  const save = async (_: string, declaration: Json) => {
    await putJson(path, { ...declaration, ...kind.keptOf?.(value!) });
    route.go(back);
  };
  return (
    <>
      <Heading kind={kind} name={name} error={error} />
      {kind.afterChange && <p class="hint">{kind.afterChange}</p>}
      {value && <DeclarationForm title={`Edit ${name}`} fields={kind.fields} old={value} back={back} onSave={save} />}
    </>
  );
}

/** The form for an action that takes `fields`; `resultOf` describes its result. */
export function AskedAction({ action, verb, fields, hint, resultOf, ...named }: Named & Asked) {
  const { kind, name, owner = "" } = named;
  const [result, setResult] = useState("");
  const title = `${verb} ${name}`;
  const back = linkTo([kind.plural, name], { owner });
  const act = async (_: string, stated: Json) => setResult(resultOf(await postJson(pathOf(named, `:${action}`), stated)));
  if (!result) {
    return (
      <>
        <PageHead title={title} />
        <p class="hint">{hint}</p>
        <DeclarationForm title={title} fields={fields} old={{ name }} back={back} verb={verb} onSave={act} />
      </>
    );
  }
  return (
    <>
      <PageHead title={title} />
      <p role="status">{result}</p>
      <div class="actions"><a class="button" href={back}>Go back</a></div>
    </>
  );
}

/** The form for a new one. */
function NewDeclaration({ kind }: { kind: Kind }) {
  const title = `New ${kind.word}`;
  const save = async (name: string, declaration: Json) => {
    await putJson(pathOf({ kind, name }), declaration);
    route.go(linkTo([kind.plural, name]));
  };
  return (
    <>
      <PageHead title={title} />
      <DeclarationForm title={title} fields={kind.fields} old={null} back={linkTo([kind.plural])} onSave={save} />
    </>
  );
}

function Heading({ kind, name, error }: { kind: Kind; name: string; error: string }) {
  return (
    <>
      <PageHead title={`${capitalized(kind.word)} ${name}`} />
      {error && <p class="error" role="alert">{error}</p>}
    </>
  );
}

function capitalized(word: string): string {
  return word[0]!.toUpperCase() + word.slice(1);
}

/** Returns its path in the API, or that of an action on it. */
function pathOf({ kind, name, owner = "" }: Named, action = ""): string {
  const query = owner && `?${new URLSearchParams({ owner })}`;
  return `v1/${kind.plural}/${encodeURIComponent(name)}${action}${query}`;
}

/** Returns what its owner has stated. */
function definitionOf({ fields }: Kind, one: Json): Json {
  const stated = fields.map(({ name }) => [name, one[name]]).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(stated);
}
