import { Zap } from "lucide";

import type { Field } from "../declarations/fields";
import { DeclarationPages, type Kind } from "../declarations/pages";
import { DeclaredState } from "../declarations/state";
import { useAccess } from "../operator";
import { linkTo } from "../route";
import { AT } from "../ui/command";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "agent", isRequired: true },
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

const TRIGGER: Kind = {
  word: "trigger",
  plural: "triggers",
  fields: FIELDS,
  actions: [
    { name: "pause", verb: "Pause", explanation: "Events wait in their stream until it is resumed.", isOffered: ({ stream, paused }) => stream && !paused },
    { name: "resume", verb: "Resume", explanation: "Each waiting event begins its task.", isOffered: ({ paused }) => paused },
  ],
  afterDeletion: "Tasks that it began continue; waiting events begin none.",
  title: "Tasks that begin with events",
  icon: Zap,
  purpose: "A trigger begins a task of an agent for each event on a subject of your NATS, with a message made from the event.",
  commandOf: (agent) => `cat > triggers.yaml <<END
triggers:
  - name: orders
    agent: ${agent}
    subject: orders.created
    text: Check order {body.id}
END
headrace triggers apply triggers.yaml${AT}`,
  columns: [{ head: "Subject", class: "mono", of: ({ subject }) => subject }],
  stateOf: ({ paused, problem }) => (
    <DeclaredState state={paused ? "paused" : problem ? "has a problem" : "active"} why={problem?.reason} />
  ),
  figuresOf: (one) => ({
    subject: one["subject"],
    "events waiting": one["waiting"] ?? "–",
    "dead letters": one["letters"],
    "events lost": one["dropped"],
    "receives events since": new Date(one["since"]).toLocaleString(),
  }),
  keptOf: ({ paused }) => ({ paused }),
};

/** Triggers: all of them, or one with its firings; the address says which. */
export function TriggersPage({ name, query }: { name: string; query: URLSearchParams }) {
  return <DeclarationPages kind={TRIGGER} name={name} query={query} links={({ agent }) => <DeadLetters agent={agent} />} />;
}

function DeadLetters({ agent }: { agent: string }) {
  const { isOperator } = useAccess();
  return isOperator ? <a class="button plain" href={linkTo(["operate"], { kind: "event", agent })}>Dead letters</a> : null;
}
