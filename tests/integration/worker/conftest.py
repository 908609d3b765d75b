"""`TaskSubmitter`, and workers in this process or in others, on streams of each test's own."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from headrace import Agent, Agents
from headrace.settings import BusSettings
from headrace.tasks.cancel import CancelTiming
from headrace_worker.settings import WorkerSettings
from headrace_worker.timing import Timing
from headrace_worker.worker import Worker
from tests.support.servers import NatsProcess
from tests.support.task_submitter import TaskSubmitter, fresh_names, open_submitter
from tests.support.worker_process import WorkerProcess

type Working = Callable[..., AbstractAsyncContextManager[Worker]]
type Spawn = Callable[..., WorkerProcess]

UNHURRIED = CancelTiming(holder_timeout=5.0, cleanup=90.0)
"""A cancel that waits for a living holder, however slow the machine is."""


@pytest.fixture
def names() -> dict[str, str]:
    """Prefixes of one test."""
    return fresh_names()


@pytest.fixture
async def submitter(
    nats_server: NatsProcess, names: dict[str, str]
) -> AsyncIterator[TaskSubmitter]:
    """Submits tasks as the gateway does, without HTTP."""
    async with open_submitter(
        BusSettings.model_validate({"nats_url": nats_server.url, **names})
    ) as it:
        yield it


@pytest.fixture
def working(nats_server: NatsProcess, names: dict[str, str]) -> Working:
    """Returns how to serve some agents in this process for the length of a block."""

    @asynccontextmanager
    async def serve(
        *agents: Agent, timing: Timing | None = None, **settings: object
    ) -> AsyncIterator[Worker]:
        given = {"nats_url": nats_server.url, "drain_seconds": 0, **names, **settings}
        worker = Worker(WorkerSettings.model_validate(given), Agents(agents), timing)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    return serve


@pytest.fixture
def spawn(nats_server: NatsProcess, names: dict[str, str], tmp_path: Path) -> Iterator[Spawn]:
    """Returns how to start one more worker process."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(
            target: str | list[str], *, imports: Sequence[str] = (), **settings: object
        ) -> WorkerProcess:
            folder = tmp_path / f"worker-{next(numbers)}"
            process = WorkerProcess(folder, target, nats_server.url, names, **settings)
            process.imports = imports
            return stack.enter_context(process)

        yield start
