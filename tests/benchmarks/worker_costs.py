"""What a worker costs by itself: ``python -m tests.benchmarks.worker_costs [KILLS]``.

`TaskSubmitter` takes the gateway's place, so that only nats-server and the worker are measured:
processor time per token that an agent says and per short run, and the time from a worker's kill to
what the next one does first.
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import uvloop

from headrace import Emission, RunContext, agent
from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.events import Draft
from headrace.model.task import TaskKey
from headrace.sdk.drive import drive
from headrace.sdk.runtime import Runtime
from headrace.settings import BusSettings
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender, StampBase
from headrace_worker.blocks import RunIds
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings
from headrace_worker.usage import Prices
from tests.support.fake_log_writer import FakeLogWriter
from tests.support.servers import NatsProcess
from tests.support.task_submitter import TaskSubmitter, fresh_names, open_submitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

TOKENS = 300_000
RUNS = 3200
AT_A_TIME = 32
STREAM = 100_000
DEMO = "headrace.demo:agents"


class _Nowhere(FakeLogWriter):
    """A writer that renders and forgets."""

    capacity, generation, sequence = 1_000_000, 2, 2

    async def append(self, drafts: Sequence[Draft], stamp: Stamp) -> None:
        b"\n".join([draft.line(stamp.generation + n) for n, draft in enumerate(drafts)])
        self.generation += len(drafts)
        await asyncio.sleep(0)


@agent()
async def talker(_: RunContext) -> AsyncIterator[Emission]:
    """Says many tokens."""
    for _number in range(TOKENS):
        yield "token "


async def per_token() -> float:
    """Return microseconds of processor time per token, from the agent's yield to the payload."""
    ids, task = RunIds("0-" + "0" * 32, 1), "0-" + "0" * 32
    authorship = StampBase("abcdefgh", "writer", 1, 1)
    writer = cast("LogWriter", _Nowhere())
    losses: list[Exception] = []
    outbox = Appender(
        writer,
        authorship,
        losses.append,
        lambda *_: None,
        lambda _: None,
        ticks=AppendTicks(0.0, asyncio.get_running_loop()),
        max_events=2048,
        max_bytes=1 << 22,
    )
    context = "0" * 36
    emitter = Emitter(
        Encoder(task, context, ids),
        Endings(task, context, ids),
        outbox,
        prices=Prices(),
        used=None,
        may_answer=False,
    )
    runtime = SimpleNamespace(loop=None, output=emitter)
    ctx = RunContext(
        key=TaskKey("default", "talker", task),
        context=context,
        owner="anonymous",
        run=1,
        attempt=1,
        message={},
        metadata={},
        deadline=None,
        checkpoint_data=None,
        traceparent=None,
        _runtime=cast("Runtime", runtime),
    )
    before = time.process_time()
    await drive(talker, ctx)
    await outbox.close([], "")
    return (time.process_time() - before) / TOKENS * 1e6


async def per_run(submitter: TaskSubmitter, worker: WorkerProcess) -> tuple[float, float]:
    """Return short runs per second and milliseconds of the worker's processor time for each."""

    async def client() -> None:
        for _ in range(RUNS // AT_A_TIME):
            task = await submitter.start("echo", "x")
            await eventually(partial(_has_ended, submitter, task.key))

    before, began = _processor_time(worker.pid), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(AT_A_TIME)))
    took = time.perf_counter() - began
    return RUNS / took, (_processor_time(worker.pid) - before) / RUNS * 1e3


async def one_stream(submitter: TaskSubmitter, worker: WorkerProcess) -> tuple[float, float]:
    """Return events per second and microseconds of the worker's processor time for each."""
    before, began = _processor_time(worker.pid), time.perf_counter()
    task = await submitter.start("counter", f"{STREAM}")
    await task.reaches(STREAM)
    took = time.perf_counter() - began
    return STREAM / took, (_processor_time(worker.pid) - before) / STREAM * 1e6


async def after_a_kill(submitter: TaskSubmitter, workers: list[WorkerProcess]) -> float:
    """Kill the holder of a task; return the seconds until the next attempt's first output."""
    task = await submitter.start("counter", "2000 10")
    held = await task.held()
    holder = next(worker for worker in workers if worker.id == held.worker)
    # Anywhere between two heartbeats.
    await asyncio.sleep(random.uniform(1.5, 3.0))
    await asyncio.to_thread(holder.kill)
    began = time.perf_counter()

    async def is_taken_over() -> bool:
        last = await task.last()
        return last.stamp.attempt == 2 and "artifactUpdate" in last.events[-1]

    await eventually(is_taken_over, timeout=30)
    took = time.perf_counter() - began
    await task.held()
    await task.ask("cancel")
    await task.ended()
    await asyncio.to_thread(holder.start)
    return took


def _worker(folder: Path, nats_url: str, names: Mapping[str, str]) -> WorkerProcess:
    process = WorkerProcess(folder, DEMO, nats_url, names)
    process.anew = True
    return process


async def _has_ended(submitter: TaskSubmitter, key: TaskKey) -> bool:
    msg = await submitter.bus.js.get_last_msg(
        submitter.bus.streams.of_shard(key.shard), submitter.bus.subjects.event(key), direct=True
    )
    return b'"TASK_STATE_COMPLETED"' in (msg.data or b"")


def _processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def measure(folder: Path, kills: int) -> None:
    """Measure everything, and say it line by line."""
    _say(f"a token: {await per_token():.2f} µs of processor time")
    names = fresh_names()
    with NatsProcess(folder / "nats") as server:
        settings = BusSettings.model_validate({"nats_url": server.url, **names})
        async with open_submitter(settings) as submitter:
            with _worker(folder / "0", server.url, names) as first:
                rate, cost = await per_run(submitter, first)
                _say(f"short runs, {AT_A_TIME} at a time: {rate:.0f}/s, {cost:.2f} ms each")
                rate, cost = await one_stream(submitter, first)
                _say(f"one stream: {rate:.0f} events/s, {cost:.2f} µs each")
                with _worker(folder / "1", server.url, names) as second:
                    times = [await after_a_kill(submitter, [first, second]) for _ in range(kills)]
    least, most = min(times), max(times)
    _say(f"{kills} kills: {least:.1f} / {statistics.median(times):.1f} / {most:.1f} s")


def main() -> None:
    """Measure with as many kills as the command line says, else 5."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(Path(folder), kills))


if __name__ == "__main__":
    main()
