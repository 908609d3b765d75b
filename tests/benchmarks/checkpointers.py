"""What a LangGraph checkpointer costs: ``python -m tests.benchmarks.checkpointers``.

The steps of a graph with a small state, and with a large value that does not change: each step puts
a checkpoint and a write; then the thread's last state is read. The fleet's checkpointer, with a
nats-server that syncs each write and with one that does not, stands beside LangGraph's
`InMemorySaver` and its `AsyncPostgresSaver` on a PostgreSQL of its own, which also syncs each
write, if both are installed (``pip install langgraph-checkpoint-postgres 'psycopg[binary]'``).
Its `RedisSaver` needs RediSearch and RedisJSON, which neither Valkey nor Debian's Redis has. Rounds
alternate.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver

from headrace.adapters.langgraph.saver import FleetSaver
from headrace.jetstream.agent_memory import AgentMemory
from headrace.model.memory import MemoryScope
from headrace.model.task import mint_task_id
from headrace.sdk.runtime import RunMemory
from headrace.settings import BusSettings
from headrace_worker.memory import AttemptMemory
from tests.benchmarks.postgres import Missing, postgres
from tests.support.in_run import in_run
from tests.support.servers import NatsProcess
from tests.support.task_submitter import fresh_names, open_submitter

STEPS = 200
ROUNDS = 5
STATES: dict[str, dict[str, Any]] = {
    "small": {"messages": "x" * 1_000, "step": 0},
    "large": {"messages": "x" * 1_000, "step": 0, "document": "y" * 200_000},
}

type Cost = tuple[float, float, float]
"""Steps a second, reads a second, and milliseconds of this process's processor time for a step."""


async def measured(saver: BaseCheckpointSaver[Any], state: dict[str, Any], thread: str) -> Cost:
    """Return the cost of a thread's steps, and of reads of its last state."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    began, before = time.perf_counter(), time.process_time()
    version: Any = None
    versions: Any = {name: saver.get_next_version(None, None) for name in state}
    for number in range(STEPS):
        changed = versions if number == 0 else {"step": saver.get_next_version(version, None)}
        versions = {**versions, **changed}
        version = versions["step"]
        checkpoint: Any = {
            "v": 1,
            "id": str(uuid6()),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {**state, "step": number},
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": None,
        }
        about: Any = {"source": "loop", "step": number, "parents": {}}
        config = await saver.aput(config, checkpoint, about, changed)
        await saver.aput_writes(config, [("step", number + 1)], str(uuid4()))
    stepped, cost = time.perf_counter() - began, time.process_time() - before
    began = time.perf_counter()
    del config["configurable"]["checkpoint_id"]
    for _ in range(STEPS):
        await saver.aget_tuple(config)
    return STEPS / stepped, STEPS / (time.perf_counter() - began), cost / STEPS * 1e3


@asynccontextmanager
async def fleet(folder: Path, sync_interval: str) -> AsyncIterator[RunMemory]:
    """Yield the memory of a run in a fleet of its own."""
    with NatsProcess(folder, sync_interval=sync_interval) as server:
        settings = BusSettings.model_validate({"nats_url": server.url, **fresh_names()})
        async with open_submitter(settings) as submitter:
            scope = MemoryScope("default", "any", "ann", "c", mint_task_id(0))
            store = AgentMemory(submitter.bus)
            yield AttemptMemory(store, scope, "w", lambda: None, is_first=True, owner_seconds=None)


@asynccontextmanager
async def beside(folder: Path) -> AsyncIterator[dict[str, BaseCheckpointSaver[Any]]]:
    """Yield LangGraph's savers, those that can be had here; say why others can't."""
    savers: dict[str, BaseCheckpointSaver[Any]] = {"InMemorySaver": InMemorySaver()}
    async with AsyncExitStack() as stack:
        try:
            module = import_module("langgraph.checkpoint.postgres.aio")
            url = stack.enter_context(postgres(folder))
            opened = module.AsyncPostgresSaver.from_conn_string(url)
            savers["AsyncPostgresSaver"] = saver = await stack.enter_async_context(opened)
            await saver.setup()
        except (ImportError, Missing) as missing:
            sys.stdout.write(f"AsyncPostgresSaver is not measured: {missing}\n")
        yield savers


async def main() -> None:
    """Measure, and print a line for each checkpointer and state."""
    found: dict[tuple[str, str], list[Cost]] = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        savers = await stack.enter_async_context(beside(folder / "postgres"))
        runs: dict[str, RunMemory] = {}
        for name, interval in {"FleetSaver, synced": "always", "FleetSaver": ""}.items():
            place = folder / (interval or "unsynced")
            place.mkdir()
            savers[name] = FleetSaver()
            runs[name] = await stack.enter_async_context(fleet(place, interval))
        for number in range(ROUNDS + 1):
            for name, saver in savers.items():
                for kind, state in STATES.items():
                    with in_run(runs[name]) if name in runs else nullcontext():
                        cost = await measured(saver, state, f"{name} {kind} {number}")
                    if number:  # the first round warms up
                        found.setdefault((name, kind), []).append(cost)
    for (name, kind), costs in found.items():
        steps, reads, spent = map(statistics.median, zip(*costs, strict=True))
        line = f"{name}, {kind}: {steps:.0f} steps/s, {reads:.0f} reads/s, {spent:.2f} ms a step"
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(main())
