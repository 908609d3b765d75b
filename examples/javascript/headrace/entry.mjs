// One stored message of a log: headers that describe it, and events as JSON lines
// (docs/bus.md, "An entry of a log"). Messages that can't be parsed are skipped by all readers.

const VERSION = "2";
const DEEPEST = 200;

export const SUBMITTED = "TASK_STATE_SUBMITTED";
export const WORKING = "TASK_STATE_WORKING";
export const INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED";
export const COMPLETED = "TASK_STATE_COMPLETED";
export const FAILED = "TASK_STATE_FAILED";
export const CANCELED = "TASK_STATE_CANCELED";
export const REJECTED = "TASK_STATE_REJECTED";

const AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED";
const BARE_MESSAGE = "HEADRACE_ANSWERED";
const FINISHED = new Set([COMPLETED, FAILED, CANCELED, REJECTED, BARE_MESSAGE]);
const RUN_OVER = new Set([...FINISHED, INPUT_REQUIRED]);
const STATES = new Set([SUBMITTED, WORKING, AUTH_REQUIRED, ...RUN_OVER]);
/** Instead of a state: clients would see an end that no fold takes for one. */
const ILL_FORMED = "an ill-formed end";
const ENDS = new Set([...FINISHED, ILL_FORMED]);

/** The headers of an entry. `stamp` is {log, generation, writer, state, run, attempt, checkpoint}. */
export function headersOf(stamp) {
  const headers = {
    "Headrace-Version": VERSION,
    "Headrace-Log": stamp.log,
    "Headrace-Generation": stamp.generation,
    "Headrace-Writer": stamp.writer,
    "Headrace-State": stamp.state,
    "Headrace-Run": stamp.run,
  };
  if (stamp.attempt) headers["Headrace-Attempt"] = stamp.attempt;
  if (stamp.checkpoint !== undefined) headers["Headrace-Checkpoint"] = stamp.checkpoint;
  return headers;
}

/** Whether the run is over in this state. */
export const endsRun = (state) => RUN_OVER.has(state);

/** Read an entry; undefined: the message is not one. `header` returns a header's value, or "". */
export function readEntry(header, body, sequence, time) {
  const stamp = readStamp(header);
  if (stamp === undefined || body.includes("\r")) return undefined;
  try {
    const events = body.split("\n").map(readEvent);
    if (!agree(stamp, events)) return undefined;
    const last = stamp.generation + events.length - 1;
    return { stamp, events, body, sequence, time, last };
  } catch {
    return undefined;
  }
}

/** Read an entry's headers; undefined: the message is not an entry. */
export function readStamp(header) {
  if (header("Headrace-Version") !== VERSION) return undefined;
  const stamp = {
    log: header("Headrace-Log"),
    generation: number(header("Headrace-Generation"), 1),
    writer: header("Headrace-Writer"),
    state: header("Headrace-State"),
    run: number(header("Headrace-Run"), 1),
    attempt: number(header("Headrace-Attempt") || "0", 0),
    checkpoint: header("Headrace-Checkpoint") || undefined,
  };
  const good =
    /^[0-9a-z]{4,16}$/.test(stamp.log) &&
    stamp.writer !== "" &&
    STATES.has(stamp.state) &&
    ![stamp.generation, stamp.run, stamp.attempt].includes(undefined);
  return good ? stamp : undefined;
}

function number(text, least) {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : -1;
  return value >= least ? value : undefined;
}

function readEvent(line) {
  const event = JSON.parse(line);
  if (event === null || typeof event !== "object" || Array.isArray(event)) throw new Error();
  if (line.length > 2 * DEEPEST && depth(event) > DEEPEST) throw new Error();
  return event;
}

/** Whether the events leave the task in the state of the headers, and end it at most at last. */
function agree(stamp, events) {
  const states = events.map((event, at) => stateIn(event, stamp.generation + at));
  const stated = states.findLast((state) => state !== undefined);
  if (stated === undefined) return !RUN_OVER.has(stamp.state);
  return stated === stamp.state && states.slice(0, -1).every((state) => !ENDS.has(state));
}

/** The state that an event states; undefined: it states none. */
function stateIn(event, generation) {
  if ("artifactUpdate" in event) return undefined;
  if ("message" in event && !("statusUpdate" in event || "task" in event))
    return isMessage(event.message) ? BARE_MESSAGE : ILL_FORMED;
  const update = event.statusUpdate ?? (generation === 1 ? event.task : undefined);
  const { state, message = null } = update?.status ?? {};
  if (isText(update?.taskId) && isText(update?.contextId) && (message === null || isMessage(message)))
    return STATES.has(state) ? state : undefined;
  return RUN_OVER.has(state) ? ILL_FORMED : undefined;
}

function isMessage(message) {
  if (message === null || typeof message !== "object" || !isText(message.messageId)) return false;
  return (message.parts ?? []).every((part) => part !== null && typeof part === "object" && isText(part.text));
}

const isText = (value) => value === undefined || typeof value === "string";

function depth(root) {
  // Iterative: recursion would overflow the stack on the input that this must refuse.
  let level = [root];
  for (let count = 0; ; count += 1) {
    level = level.filter((value) => value !== null && typeof value === "object");
    if (level.length === 0) return count;
    level = level.flatMap((value) => Object.values(value));
  }
}
