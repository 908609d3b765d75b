import { fetchJson, type Json } from "../gateway";
import { unsent } from "../approval/unsent";
import { inWords } from "../approval/verdict";
import { stateName } from "../task/timeline";
import { Store } from "../store";
import { inbox } from "./inbox";

/** What became of a question that was open here and that somebody answered elsewhere. */
export interface Elsewhere {
  /** Whose question it was; empty: it is not known. */
  owner: string;
  /** When; RFC 3339. */
  time: string;
  /** The answer in words, or the state in which the task ended without one. */
  outcome: string;
  isAnswer: boolean;
}

/** A question that is shown. */
interface Shown {
  agent: string;
  owner: string;
  /** The time of its status in the inbox; empty: it was not there yet. */
  time: string;
  /** Whether the user has answered it here. */
  isHere: boolean;
  /** The number of its event in the log; the answer has the next one. */
  generation: Promise<number>;
}

/** How long a question counts as shown after its page has changed: the inbox may hear of it later. */
const LINGERS = 5_000;

/** Notes who else answers the questions that are shown: another person of the same owner, or another window. */
class AnswersElsewhere extends Store {
  private readonly shown = new Map<string, Shown>();
  private readonly found = new Map<string, Elsewhere | null>();

  constructor() {
    super();
    inbox.follow(() => this.compare());
  }

  /** Minds a task's question while it is shown; returns a function that ends this. */
  mind(agent: string, task: string): () => void {
    const question: Shown = { agent, owner: "", time: "", isHere: false, generation: generationOf(agent, task) };
    this.found.delete(task);
    unsent.forget(task);
    this.shown.set(task, question);
    this.compare();
    return () => {
      if (!question.isHere) void this.check(task, question);
      setTimeout(() => this.shown.get(task) === question && this.shown.delete(task), LINGERS);
    };
  }

  /** Notes that the user answers it here. */
  answered(task: string): void {
    const question = this.shown.get(task);
    if (question) question.isHere = true;
  }

  /** Looks who was first, after an answer that was given here has been refused. */
  refused(task: string): void {
    const question = this.shown.get(task);
    if (question) this.look(task, question);
  }

  /** Returns what became of a question that is answered elsewhere; null: that is being looked up. */
  of(task: string): Elsewhere | null | undefined {
    return this.found.get(task);
  }

  /** Finds the questions that are no longer in the inbox, or of which it has another one by now. */
  private compare(): void {
    if (inbox.rows === null) return;
    for (const [task, question] of this.shown) {
      const row = inbox.rows.find(({ id }) => id === task);
      if (row && !question.time) Object.assign(question, { time: row.time, owner: row.owner });
      // What was asked and answered between two states of the inbox was never in it.
      else if (!row && !question.time) void this.check(task, question);
      else if (question.time && row?.time !== question.time && !question.isHere) this.look(task, question);
    }
  }

  /** Takes note if a question has been answered that is no longer shown, or not in the inbox. */
  private async check(task: string, question: Shown): Promise<void> {
    const found = await outcomeOf(task, question).catch(() => null);
    if (!found || question.isHere || this.shown.get(task) !== question) return;
    this.shown.delete(task);
    this.found.set(task, found);
    this.changed();
  }

  private look(task: string, question: Shown): void {
    this.shown.delete(task);
    this.found.set(task, null);
    const settle = (found: Elsewhere | null) => {
      if (this.found.get(task) !== null) return;
      if (found) this.found.set(task, found);
      else this.found.delete(task);
      this.changed();
    };
    this.changed();
    outcomeOf(task, question).then(settle, () => settle(null));
  }
}

/** Returns what follows a question in its log; null: nothing yet. */
async function outcomeOf(task: string, { agent, owner, generation }: Shown): Promise<Elsewhere | null> {
  const after = await generation;
  if (after === 0) return null;
  const { events } = await fetchJson(`${pathOf(agent, task)}/log?${new URLSearchParams({ limit: "1", after: String(after) })}`);
  const row: Json | undefined = events[0];
  if (!row) return null;
  const said: Json | undefined = row["event"]["statusUpdate"]?.status?.message;
  const isAnswer = row["attempt"] === 0 && said?.["role"] === "ROLE_USER";
  return { owner: owner || (await ownerOf(agent, task)), time: row["time"], outcome: isAnswer ? wordsOf(said!) : stateName(row["state"]), isAnswer };
}

async function ownerOf(agent: string, task: string): Promise<string> {
  const { events } = await fetchJson(`${pathOf(agent, task)}/log?limit=1`);
  return events[0]?.["owner"] ?? "";
}

function pathOf(agent: string, task: string): string {
  return `v1/agents/${encodeURIComponent(agent)}/tasks/${encodeURIComponent(task)}`;
}

async function generationOf(agent: string, task: string): Promise<number> {
  const found = await fetchJson(`${pathOf(agent, task)}?historyLength=0`).catch((): Json => ({}));
  return found["metadata"]?.["headrace.generation"] ?? 0;
}

function wordsOf({ parts = [] }: Json): string {
  return parts.map((part: Json) => part["text"] ?? (part["data"] === undefined ? "" : inWords(part["data"]))).filter(Boolean).join("; ");
}

export const answersElsewhere = new AnswersElsewhere();
