"""Watch workers as task state does, without Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_task_state.maintenance.timing import WatchTiming
from headrace_task_state.maintenance.worker_watch import WorkerWatch


@asynccontextmanager
async def watching(
    settings: BusSettings, timing: WatchTiming | None = None
) -> AsyncIterator[WorkerWatch]:
    """Watch all workers of the directory for the length of the block."""
    bus = Bus(settings)
    await bus.connect("watch")
    directory = Directory(bus)
    await directory.start()
    watch = WorkerWatch(bus, directory.workers, timing or WatchTiming())
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await directory.stop()
        await bus.close()
