import { CalendarClock } from "lucide";

import { BackFill } from "../declarations/back_fill";
import type { Field } from "../declarations/fields";
import { DeclarationPages, type Kind, type Named } from "../declarations/pages";
import { DeclaredState } from "../declarations/state";
import type { Json } from "../gateway";
import { linkTo } from "../route";
import { AT } from "../ui/command";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "agent", isRequired: true },
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
    { name: "run", verb: "Run now", explanation: "It fires once, besides its own times.", isOffered: () => true },
    { name: "pause", verb: "Pause", explanation: "It does not fire until it is resumed.", isOffered: ({ state }) => state === "active" },
    { name: "resume", verb: "Resume", explanation: "It fires at its next time; one for a time that has passed fires at once.", isOffered: ({ state }) => state === "paused" },
  ],
  afterDeletion: "Tasks that it began continue.",
  afterChange: "A change restarts the time between firings.",
  title: "Tasks that begin by the clock",
  icon: CalendarClock,
  purpose: "A schedule begins a task of an agent by the clock: once, at an interval or by cron. Its firings and their tasks are listed here.",
  commandOf: (agent) => `headrace schedules create nightly ${agent} "count the stock" --cron "0 2 * * *"${AT}`,
  columns: [
    { head: "When", class: "mono", of: whenOf },
    { head: "Next", of: nextOf },
  ],
  stateOf: ({ state, ended }) => <DeclaredState state={state} why={ended} />,
  figuresOf: (one) => ({
    when: whenOf(one),
    "next time": nextOf(one),
    "firings waiting": one["waiting"],
    "tasks begun": one["began"],
  }),
};

/** Schedules: all of them, or one with its firings; the address says which. */
export function SchedulesPage({ name, query }: { name: string; query: URLSearchParams }) {
  const forms = { fill: (named: Named) => <BackFill {...named} /> };
  return <DeclarationPages kind={SCHEDULE} name={name} query={query} forms={forms} links={linksOf} />;
}

function linksOf({ cron }: Json, { name, owner = "" }: Named) {
  return cron && <a class="button plain" href={linkTo(["schedules", name], { owner, fill: "1" })}>Back-fill</a>;
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
