import type { Json } from "../gateway";

/** Something that an operator should look at. */
export interface Problem {
  /** What it is about, such as an agent. */
  subject: string;
  text: string;
  isBad: boolean;
}

/** Seconds that a run may wait before it is worth a look. */
const LONG_WAIT = 30;
/** Seconds without a worker's heartbeat. */
const SILENT = 10;
/** The share of a stream's limit from which on it is worth a look. */
const NEARLY_FULL = 0.8;

/** Returns what is unwell in the fleet's state, the worst first. */
export function problemsOf(state: Json): Problem[] {
  const found = [...agentsIn(state), ...queuesIn(state), ...workersIn(state), ...streamsIn(state), ...rangesIn(state)];
  return found.sort((one, other) => Number(other.isBad) - Number(one.isBad));
}

function agentsIn({ agents = [], queues = [] }: Json): Problem[] {
  return agents
    .filter((one: Json) => !one["available"])
    .map(({ name }: Json) => {
      const waiting = queues.filter((queue: Json) => queue["agent"] === name).reduce((total: number, queue: Json) => total + queue["waiting"], 0);
      return { subject: name, text: waiting ? `no worker serves it, ${waiting === 1 ? "and 1 run waits" : `and ${waiting} runs wait`}` : "no worker serves it", isBad: true };
    });
}

function queuesIn({ queues = [] }: Json): Problem[] {
  return queues
    .filter((one: Json) => (one["oldestSeconds"] ?? 0) >= LONG_WAIT)
    .map(({ agent, waiting, oldestSeconds }: Json) => ({
      subject: agent, text: `${counted(waiting, "run")} waiting, the oldest for ${Math.round(oldestSeconds)} s`, isBad: false,
    }));
}

function workersIn({ workers = [] }: Json): Problem[] {
  if (workers.length === 0) return [{ subject: "workers", text: "none is running", isBad: true }];
  return workers
    .filter((one: Json) => one["heartbeatSeconds"] >= SILENT)
    .map(({ id, heartbeatSeconds }: Json) => ({ subject: id, text: `no heartbeat for ${Math.round(heartbeatSeconds)} s`, isBad: false }));
}

function streamsIn({ streams = [] }: Json): Problem[] {
  return streams.flatMap(({ name, bytes, maxBytes, replicas = 1, currentReplicas = replicas }: Json) => {
    const found: Problem[] = [];
    const share = maxBytes ? bytes / maxBytes : 0;
    if (share >= NEARLY_FULL) found.push({ subject: `stream ${name}`, text: `${Math.round(share * 100)} % full`, isBad: share >= 0.95 });
    if (currentReplicas < replicas) found.push({ subject: `stream ${name}`, text: `${currentReplicas} of ${replicas} replicas are current`, isBad: false });
    return found;
  });
}

function rangesIn({ ranges = [] }: Json): Problem[] {
  return ranges.flatMap(({ stream, lag }: Json) => {
    if (lag === null) return [{ subject: "task state", text: `does not answer for stream ${stream}`, isBad: true }];
    return lag >= 1000 ? [{ subject: "task state", text: `${lag.toLocaleString()} messages behind in stream ${stream}`, isBad: false }] : [];
  });
}

function counted(number: number, word: string): string {
  return number === 1 ? `1 ${word}` : `${number.toLocaleString()} ${word}s`;
}
