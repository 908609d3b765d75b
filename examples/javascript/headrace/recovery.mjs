// What an attempt reads from the log before it begins: the input and the state of earlier attempts.

import { LogLost, readLog } from "./log.mjs";

/** Read a run's earlier events; `last` is the log's last entry. A first attempt reads nothing. */
export async function recover(bus, key, run, last) {
  const input = last.last === run ? last : undefined;
  if (input && !metadataOf(input.events.at(-1))["headrace.waiting"]?.length) return begin(input, run);
  const entries = await readLog(bus, key, last.sequence);
  const first = entries.findIndex((entry) => entry.stamp.generation <= run && run <= entry.last);
  if (first < 0) throw new LogLost(`the input ${run} of ${key.task} is gone`);
  const recovered = begin(entries[first], run);
  const waiting = new Set(recovered.metadata["headrace.waiting"] ?? []);
  for (const entry of entries.slice(0, first)) forEachQueued(entry, (q) => waiting.has(q.generation) && recovered.queued.push(q));
  for (const entry of entries.slice(first)) note(recovered, entry);
  return recovered;
}

/** The queued messages that are not answered, including those taken after the last checkpoint. */
export function waitingIn(recovered) {
  return recovered.queued.filter((q) => (recovered.taken.get(q.generation) ?? recovered.kept + 1) > recovered.kept);
}

/** Why an attempt was handed back, if `event` records that. */
export const whyHandedBack = (event) => metadataOf(event)["headrace.handedBack"];

function begin(entry, run) {
  const event = entry.events[run - entry.stamp.generation];
  const message = event.task?.history?.at(-1) ?? event.statusUpdate?.status?.message ?? {};
  return {
    message,
    metadata: metadataOf(event),
    kept: run,
    saved: {},
    began: undefined,
    queued: [],
    taken: new Map(),
    handedBack: 0,
    discardedArtifacts: new Set(),
  };
}

function note(recovered, entry) {
  if (entry.stamp.attempt && recovered.began === undefined) recovered.began = Date.parse(entry.time);
  forEachQueued(entry, (q) => recovered.queued.push(q));
  entry.events.forEach((event, offset) => {
    const taken = metadataOf(event)["headrace.taken"];
    if (taken !== undefined) recovered.taken.set(taken, entry.stamp.generation + offset);
    const artifact = event.artifactUpdate?.artifact?.artifactId;
    if (artifact !== undefined) recovered.discardedArtifacts.add(artifact);
    if (whyHandedBack(event) === "leaving") recovered.handedBack += 1;
  });
  if (entry.stamp.checkpoint !== undefined) {
    recovered.kept = entry.last;
    recovered.saved = decodeCheckpoint(entry.stamp.checkpoint);
    recovered.discardedArtifacts.clear();
  }
}

function forEachQueued(entry, take) {
  entry.events.forEach((event, offset) => {
    const held = metadataOf(event)["headrace.queued"];
    if (held) take({ generation: entry.stamp.generation + offset, message: held.message, metadata: held.metadata ?? {} });
  });
}

function metadataOf(event) {
  return (event.task ?? event.statusUpdate ?? event.artifactUpdate ?? event.message ?? {}).metadata ?? {};
}

/** A checkpoint's header: the data that the agent saved, and the number of ids generated so far. */
export function encodeCheckpoint(data, ids, index) {
  const text = JSON.stringify(data ?? null);
  if (Buffer.byteLength(text) > 8192) throw new RangeError("a checkpoint exceeds the limit of 8192 bytes");
  const plain = /^[\x20-\x7e]*$/.test(text);
  const kept = plain ? { data: JSON.parse(text) } : { data64: Buffer.from(text).toString("base64") };
  return JSON.stringify({ ...kept, ids, index });
}

function decodeCheckpoint(header) {
  try {
    const held = JSON.parse(header);
    const data = "data64" in held ? JSON.parse(Buffer.from(held.data64, "base64").toString()) : held.data;
    return { data, ids: held.ids, index: held.index };
  } catch {
    return {};
  }
}
