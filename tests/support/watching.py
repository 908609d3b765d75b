"""Watch workers as task state does, without Redis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.timing import WatchTiming
from headrace_task_state.maintenance.worker_watch import WorkerWatch
from tests.support.background import running


@asynccontextmanager
async def watching(
    settings: BusSettings, timing: WatchTiming | None = None, held: HeldTasks | None = None
) -> AsyncIterator[WorkerWatch]:
    """Watch all workers of the directory for the length of the block; `held` has their tasks."""
    bus = Bus(settings)
    await bus.connect("watch")
    directory = Directory(bus)
    await directory.start()
    agents = directory.agents_by_worker
    watch = WorkerWatch(bus, agents, timing or WatchTiming(), held or HeldTasks())
    try:
        async with running(watch.run()):
            yield watch
    finally:
        await directory.stop()
        await bus.close()
