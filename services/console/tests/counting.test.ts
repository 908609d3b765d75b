import assert from "node:assert/strict";
import { test } from "node:test";

const globals = globalThis as any;
globals.location = { hash: "", href: "http://127.0.0.1:81/console/", port: "81", hostname: "127.0.0.1" };
globals.addEventListener = () => {};
globals.sessionStorage = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
const { Counting } = await import("../src/break/counting");

const ENCODER = new TextEncoder();
const LOG = "/v1/agents/counter/tasks/t/log";

/** A stack of two gateways and two workers, whose log's rows a test sends. */
class FakeStack {
  processes: any[] = [
    { role: "gateway", index: 1, pid: 1, port: 81, running: true, worker: null },
    { role: "gateway", index: 2, pid: 2, port: 82, running: true, worker: null },
    { role: "worker", index: 0, pid: 3, port: null, running: true, worker: "worker-a" },
    { role: "worker", index: 1, pid: 4, port: null, running: true, worker: "worker-b" },
  ];
  /** The gateways that streamed the log, by their ports. */
  readonly streamed: string[] = [];
  readonly posted: string[] = [];
  private rows = 0;
  private sink: ReadableStreamDefaultController<Uint8Array> | null = null;

  readonly fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const { pathname, port } = new URL(url);
    if (pathname === LOG) return this.stream(port, init.signal ?? null);
    if (init.method === "POST") this.posted.push(pathname);
    if (pathname.endsWith(":kill")) this.restart(pathname);
    return Response.json(pathname.endsWith("processes") ? { processes: this.processes } : { task: { id: "t" } });
  };

  /** Sends the log's next row, or the one `skipped` after it. */
  row(worker: string, skipped = 0): void {
    this.rows += 1 + skipped;
    const event = { artifactUpdate: { artifact: { parts: [{ text: String(this.rows) }] } } };
    const row = { generation: this.rows, time: "", writer: { kind: "worker", id: `${worker}-1` }, event };
    this.sink!.enqueue(ENCODER.encode(`id: c${this.rows}\ndata: ${JSON.stringify(row)}\n\n`));
  }

  private stream(port: string, signal: AbortSignal | null): Response {
    this.streamed.push(port);
    const body = new ReadableStream<Uint8Array>({ start: (sink) => void (this.sink = sink) });
    const sink = this.sink!;
    signal?.addEventListener("abort", () => sink.error(signal.reason));
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  private restart(path: string): void {
    const [, role, index] = path.match(/([^/]+)\/(\d+):kill$/)!;
    this.processes = this.processes.map((one) => (one.role === role && one.index === Number(index) ? { ...one, pid: one.pid + 10, worker: "worker-c" } : one));
  }
}

async function begun(): Promise<[InstanceType<typeof Counting>, FakeStack]> {
  const [counting, stack] = [new Counting(), new FakeStack()];
  globals.fetch = stack.fetch;
  await counting.load();
  await counting.start();
  await until(() => stack.streamed.length === 1);
  return [counting, stack];
}

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2000 && !holds(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(holds());
}

test("numbers and missing events come from the log, and the worker from its writer", async () => {
  const [counting, stack] = await begun();
  stack.row("worker-a");
  stack.row("worker-b", 2);
  await until(() => counting.number === 4);
  assert.deepEqual([counting.tally.events, counting.tally.lost, counting.worker?.index], [2, 2, 1]);
  await counting.stop();
  assert.deepEqual([counting.isRunning, stack.posted.at(-1)], [false, "/v1/agents/counter/tasks/t:cancel"]);
});

test("the worker that counts is killed, and the breakage is over once another one counts", async () => {
  const [counting, stack] = await begun();
  stack.row("worker-b");
  await until(() => counting.number === 1);
  const killing = counting.kill("worker");
  await until(() => stack.posted.some((path) => path.endsWith("worker/1:kill")));
  const sending = setInterval(() => stack.row(stack.processes[3].pid === 4 ? "worker-b" : "worker-a"), 20);
  await killing;
  clearInterval(sending);
  const [{ what, outcome }] = counting.breakages as [{ what: string; outcome: string }];
  assert.deepEqual([what, outcome], ["kill -9 worker-1", "worker-0 goes on counting"]);
  assert.deepEqual([counting.tally.lost, counting.tally.repeated, counting.open], [0, 0, undefined]);
  await counting.stop();
});

test("a stream that is moved is resumed on the next gateway", async () => {
  const [counting, stack] = await begun();
  stack.row("worker-a");
  await until(() => counting.number === 1);
  const moving = counting.move();
  await until(() => stack.streamed.length === 2);
  stack.row("worker-a");
  await moving;
  assert.deepEqual([stack.streamed, counting.breakages[0]?.outcome], [["81", "82"], "gateway-2 resumed it"]);
  await counting.stop();
});

test("what is broken as the stream ends says so", async () => {
  const [counting, stack] = await begun();
  stack.row("worker-a");
  await until(() => counting.number === 1);
  await counting.stop();
  await counting.cut();
  assert.equal(counting.breakages[0]?.outcome, "the stream has ended");
});
