// Whether a pulled run is for this worker, and taking its leg (docs/bus.md, "A worker's duties").

import { randomBytes } from "node:crypto";
import { sleep } from "./bus.mjs";
import { FAILED, SUBMITTED, WORKING, endsLeg } from "./entry.mjs";
import { Fenced, LogLost, LogWriter, lastEntry } from "./log.mjs";
import { readPast, whyHandedBack } from "./past.mjs";
import { TASK_ID } from "./run.mjs";
import { Ids, Speech } from "./speech.mjs";

const HOLDER_ANSWERS = 500;
const ASK_AGAIN = 150;
const ROUNDS = 5;

/**
 * Take the leg of `run` if it is to be taken. Returns one of
 * {taken: {past, writer, authorship}}, {held: worker}, {behind: task}, {over: reason, lost, letter}.
 */
export async function take(bus, worker, run, policy) {
  for (let round = 0; round < ROUNDS; round += 1) {
    const verdict = (round === 0 && carried(run)) || (await judge(bus, run));
    if (!verdict.last) return verdict;
    try {
      return await begin(bus, worker, run, policy, verdict);
    } catch (trouble) {
      // Somebody was quicker: what it appended decides anew.
      if (trouble instanceof LogLost) return { over: trouble.message, lost: true };
      if (!(trouble instanceof Fenced)) throw trouble;
    }
  }
  throw new Error(`others keep appending to ${run.key.task}`);
}

/** The input that a run carries, so that a first attempt begins without reading the log. */
function carried(run) {
  const { input, sequence, log } = run.body;
  if (input == null || sequence == null || run.deliveries !== 1) return undefined;
  const stamp = { log, generation: run.leg, state: SUBMITTED, leg: run.leg, attempt: 0 };
  const entry = { stamp, events: [JSON.parse(input)], sequence, last: run.leg };
  return { last: entry, attempt: 1 };
}

async function judge(bus, run) {
  let last = await lastEntry(bus, run.key);
  if (last === undefined) {
    await sleep(200);
    last = await lastEntry(bus, run.key);
  }
  if (last === undefined) return { over: "its log is gone", lost: true };
  const { stamp } = last;
  if (stamp.log !== run.body.log) return { over: `it is for log ${run.body.log}, which is gone`, lost: true };
  if (stamp.leg > run.leg) return { over: `leg ${stamp.leg} superseded it` };
  if (endsLeg(stamp.state)) return { over: "the leg has ended" };
  if (stamp.leg < run.leg) return { over: `the log has no input ${run.leg}`, lost: true };
  if (stamp.attempt === 0) return { last, attempt: 1 };
  if (whyHandedBack(last.events.at(-1)) === undefined) {
    const holder = await whoHolds(bus, run.key);
    if (holder?.leg === run.leg) return { held: holder.worker };
  }
  return { last, attempt: stamp.attempt + 1 };
}

/** Ask the task's holder. A holder begins to listen a moment after it has written to the log. */
async function whoHolds(bus, key) {
  for (const pause of [0, ASK_AGAIN]) {
    await sleep(pause);
    try {
      return await bus.ask(bus.control(key), { ask: "who" }, HOLDER_ANSWERS);
    } catch (trouble) {
      const nobody = trouble.cause?.isNoResponders?.() || trouble.cause?.cause?.isNoResponders?.();
      if (!nobody) return undefined;
    }
  }
  return undefined;
}

async function begin(bus, worker, run, policy, { last, attempt }) {
  const past = await readPast(bus, run.key, run.leg, last);
  const behind = attempt === 1 && (await whoseTurnItIs(bus, run.key, past.metadata["headrace.behind"]));
  if (behind) return { behind };
  const authorship = {
    log: run.body.log,
    writer: `${worker}-${randomBytes(3).toString("hex")}`,
    leg: run.leg,
    attempt,
  };
  const writer = new LogWriter(bus, run.key, last);
  const speech = new Speech(run.key, run.body.context, new Ids(run.key, run.leg));
  const reason = whyHopeless(policy, past, attempt);
  if (reason !== undefined) {
    // The letter first: dying in between repeats it, which its message id makes one.
    await run.keepAsDeadLetter(bus, reason);
    await writer.append([speech.failed(reason).event], { ...authorship, state: FAILED });
    return { over: reason };
  }
  const told = { "headrace.attempt": attempt, "headrace.worker": worker };
  if (attempt > 1) told["headrace.discardedAfter"] = past.kept;
  await writer.append([speech.status(WORKING, undefined, told)], { ...authorship, state: WORKING });
  return { taken: { past, writer, authorship } };
}

/** A task of those `named` that this one is to begin after; undefined: it may begin. */
async function whoseTurnItIs(bus, key, named) {
  for (const task of Array.isArray(named) ? named : []) {
    if (!TASK_ID.test(task)) continue;
    const last = await lastEntry(bus, { ...key, task });
    if (last && [SUBMITTED, WORKING].includes(last.stamp.state)) return task;
  }
  return undefined;
}

function whyHopeless(policy, past, attempt) {
  const failed = attempt - 1 - past.handedBack;
  if (failed >= policy.maxAttempts) return `Given up after ${failed} attempts`;
  return undefined;
}
