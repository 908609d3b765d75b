// Decides whether this worker claims a pulled run request's run (docs/bus.md, "A worker's duties").

import { randomBytes } from "node:crypto";
import { sleep } from "./bus.mjs";
import { FAILED, SUBMITTED, WORKING, endsRun } from "./entry.mjs";
import { Fenced, LogLost, LogWriter, lastEntry } from "./log.mjs";
import { recover, whyHandedBack } from "./recovery.mjs";
import { TASK_ID } from "./run_request.mjs";
import { Ids, Encoder } from "./encoder.mjs";

const HOLDER_ANSWERS = 500;
const ASK_AGAIN = 150;
const ROUNDS = 5;

/**
 * Claim the run of `request` if this worker should. Returns one of
 * {taken: {recovered, writer, authorship}}, {held: worker}, {behind: task}, {over: reason, lost, letter}.
 */
export async function take(bus, worker, request, policy) {
  for (let round = 0; round < ROUNDS; round += 1) {
    const decision = (round === 0 && inputInRequest(request)) || (await decide(bus, request));
    if (!decision.last) return decision;
    try {
      return await begin(bus, worker, request, policy, decision);
    } catch (error) {
      // Another writer was faster: decide again with what it appended.
      if (error instanceof LogLost) return { over: error.message, lost: true };
      if (!(error instanceof Fenced)) throw error;
    }
  }
  throw new Error(`other writers keep appending to ${request.key.task}`);
}

/** The input in a run request: a first attempt can begin without reading the log. */
function inputInRequest(request) {
  const { input, sequence, log } = request.body;
  if (input == null || sequence == null || request.deliveries !== 1) return undefined;
  const stamp = { log, generation: request.run, state: SUBMITTED, run: request.run, attempt: 0 };
  const entry = { stamp, events: [JSON.parse(input)], sequence, last: request.run };
  return { last: entry, attempt: 1 };
}

async function decide(bus, request) {
  let last = await lastEntry(bus, request.key);
  if (last === undefined) {
    await sleep(200);
    last = await lastEntry(bus, request.key);
  }
  if (last === undefined) return { over: "its log is gone", lost: true };
  const { stamp } = last;
  if (stamp.log !== request.body.log) return { over: `its log ${request.body.log} is gone`, lost: true };
  if (stamp.run > request.run) return { over: `run ${stamp.run} has superseded it` };
  if (endsRun(stamp.state)) return { over: "the run has ended" };
  if (stamp.run < request.run) return { over: `the log has no input ${request.run}`, lost: true };
  if (stamp.attempt === 0) return { last, attempt: 1 };
  if (whyHandedBack(last.events.at(-1)) === undefined) {
    const holder = await whoHolds(bus, request.key);
    if (holder?.run === request.run) return { held: holder.worker };
  }
  return { last, attempt: stamp.attempt + 1 };
}

/** Contact the task's holder, which subscribes a moment after its first entry in the log. */
async function whoHolds(bus, key) {
  for (const pause of [0, ASK_AGAIN]) {
    await sleep(pause);
    try {
      return await bus.ask(bus.control(key), { ask: "who" }, HOLDER_ANSWERS);
    } catch (error) {
      const nobody = error.cause?.isNoResponders?.() || error.cause?.cause?.isNoResponders?.();
      if (!nobody) return undefined;
    }
  }
  return undefined;
}

async function begin(bus, worker, request, policy, { last, attempt }) {
  const recovered = await recover(bus, request.key, request.run, last);
  const behind = attempt === 1 && (await taskToAwait(bus, request.key, recovered.metadata["headrace.wait_for"]));
  if (behind) return { behind };
  const authorship = {
    log: request.body.log,
    writer: `${worker}-${randomBytes(3).toString("hex")}`,
    run: request.run,
    attempt,
  };
  const writer = new LogWriter(bus, request.key, last);
  const encoder = new Encoder(request.key, request.body.context, new Ids(request.key, request.run));
  const reason = whyGivenUp(policy, recovered, attempt);
  if (reason !== undefined) {
    // The dead letter first: a crash in between repeats it, and its message id deduplicates it.
    await request.keepAsDeadLetter(bus, reason);
    await writer.append([encoder.failed(reason).event], { ...authorship, state: FAILED });
    return { over: reason };
  }
  const metadata = { "headrace.attempt": attempt, "headrace.worker": worker };
  if (attempt > 1) metadata["headrace.discardedAfter"] = recovered.kept;
  await writer.append([encoder.status(WORKING, undefined, metadata)], { ...authorship, state: WORKING });
  return { taken: { recovered, writer, authorship } };
}

/** One of the tasks `named` that must end before this one begins; undefined: it may begin. */
async function taskToAwait(bus, key, named) {
  for (const task of Array.isArray(named) ? named : []) {
    if (!TASK_ID.test(task)) continue;
    const last = await lastEntry(bus, { ...key, task });
    if (last && [SUBMITTED, WORKING].includes(last.stamp.state)) return task;
  }
  return undefined;
}

function whyGivenUp(policy, recovered, attempt) {
  const failed = attempt - 1 - recovered.handedBack;
  if (failed >= policy.maxAttempts) return `Given up after ${failed} attempts`;
  return undefined;
}
