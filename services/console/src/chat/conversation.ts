import type { Message, RunAgentInput } from "@ag-ui/core";
import { HeadraceAgent } from "@headrace/client/ag_ui.js";

import { CONNECTION, fetchJson, postJson, Refused, urlOf, type Json } from "../gateway";
import { answersElsewhere } from "../inbox/answers_elsewhere";
import { Store } from "../store";
import { inWords } from "./refusals";
import { Transcript, type Answer, type Run, type ThreadMessage } from "./transcript";

/** Messages that begin a thread, with what was said before them elsewhere; by the thread's id. */
const begun = new Map<string, { past: ThreadMessage[]; content: string | Json[] }>();

/** Has the thread begin with a message once it is opened, behind what was said in another one. */
export function beginThread(thread: string, past: ThreadMessage[], content: string | Json[]): void {
  begun.set(thread, { past, content });
}

/** One thread with an agent: restored from the gateway as it is, with the runs that are going on. */
export class Conversation extends Store {
  transcript = new Transcript();
  isLoading = true;
  error = "";
  private readonly active = new Map<Run, AbortController>();
  private readonly path: string;
  private readonly restored: Promise<void>;
  private readonly closing = new AbortController();

  constructor(
    readonly agent: string,
    readonly thread: string,
  ) {
    super();
    this.path = `v1/agents/${encodeURIComponent(agent)}/ag-ui`;
    const first = begun.get(thread);
    begun.delete(thread);
    this.restored = this.restore();
    if (first) void this.send(first.content, first.past);
  }

  /** Whether a run is going on. */
  get isRunning(): boolean {
    return this.transcript.runs.some((run) => run.state === "running");
  }

  /**
   * Says something, also while a run is going on: the agent's `follow_ups` decide what follows.
   * While the thread is being restored, it waits: its run comes after those, and begins with their
   * state.
   */
  async send(content: string | Json[], past: ThreadMessage[] = []): Promise<void> {
    await this.restored;
    if (past.length > 0) this.transcript.past = past;
    const message = { id: crypto.randomUUID(), content };
    // What is said to a task that waits is an answer, too.
    if (this.transcript.open.length > 0) answersElsewhere.answered(this.transcript.runs.at(-1)!.task);
    const run = this.transcript.begin(crypto.randomUUID(), [message]);
    await this.stream(run, "", [...past, { ...message, role: "user" }], {});
  }

  /** Says once more what began a run. */
  retry(run: Run): void {
    for (const { content } of run.user) void this.send(content);
  }

  /** Answers all questions of the last run. */
  answer(answers: Answer[]): void {
    const asked = this.transcript.runs.at(-1)!.task;
    const run = this.transcript.begin(crypto.randomUUID(), [], "", answers);
    answersElsewhere.answered(asked);
    void this.stream(run, "", [], { resume: answers }).then(() => run.state === "failed" && answersElsewhere.refused(asked));
  }

  /** Follows a run that another request started, from its current state. */
  attach(run: Run): void {
    run.state = "running";
    run.error = "";
    run.isLost = false;
    void this.stream(run, "/attach", [], {});
  }

  /** Cancels a run, for all who follow it. */
  async stop(run: Run): Promise<void> {
    try {
      await postJson(`${this.path}/stop`, { threadId: this.thread, runId: run.id });
    } catch (error) {
      this.error = (error as Error).message;
      this.changed();
    }
  }

  /** Stops following; the runs go on. */
  close(): void {
    this.closing.abort();
    for (const aborting of this.active.values()) aborting.abort();
    this.active.clear();
  }

  private async restore(): Promise<void> {
    const path = `${this.path}/threads/${encodeURIComponent(this.thread)}`;
    try {
      const thread = await fetchJson(path, { signal: this.closing.signal });
      // An answer that had come before it was closed is not aborted.
      this.closing.signal.throwIfAborted();
      this.transcript.restore(thread);
      const open: Json[] = thread["runs"].filter((one: Json) => !one["over"]);
      for (const { runId } of open) this.attach(this.transcript.begin(runId));
    } catch (error) {
      if (this.closing.signal.aborted) return;
      // A thread begins with its first message.
      const isNew = error instanceof Refused && error.status === 404;
      this.error = isNew ? "" : (error as Error).message;
    }
    this.isLoading = false;
    this.changed();
  }

  private async stream(
    run: Run,
    place: string,
    messages: ThreadMessage[],
    input: Pick<RunAgentInput, "resume"> | Json,
  ): Promise<void> {
    const agent = new HeadraceAgent({
      url: urlOf(this.path + place),
      threadId: this.thread,
      initialMessages: messages as unknown as Message[],
      initialState: this.transcript.state,
      ...CONNECTION,
    });
    const abortController = new AbortController();
    this.active.set(run, abortController);
    this.changed();
    const onEvent = ({ event }: { event: Json }) => {
      if (abortController.signal.aborted) return;
      run.task ||= agent.task;
      this.transcript.take(run, event);
      this.changed();
    };
    try {
      await agent.runAgent({ runId: run.id, ...input, abortController }, { onEvent });
    } catch (error) {
      if (abortController.signal.aborted) return;
      if (run.state === "running") {
        run.state = "failed";
        run.isLost = place !== "" || run.task !== "";
        run.error = inWords((error as Error).message);
      }
    }
    this.active.delete(run);
    this.changed();
  }
}
