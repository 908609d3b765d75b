"""How often the watch of workers asks for what it watches."""

import asyncio
from collections.abc import Mapping
from typing import cast

from headrace.jetstream.connection import Bus
from headrace.model.errors import NobodyListens
from headrace.model.subjects import Subjects
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.timing import WatchTiming
from headrace_task_state.maintenance.worker_watch import WorkerWatch
from tests.support.background import running


class DeafBus:
    """A bus on which nobody listens."""

    subjects = Subjects("p")
    answers = True
    back_since = float("-inf")

    def __init__(self) -> None:
        self.asked = dict[str, int]()
        self.many = asyncio.Event()

    async def request(self, subject: str, *_: object) -> None:
        self.asked[subject] = self.asked.get(subject, 0) + 1
        if len(self.asked) == 20 and min(self.asked.values()) >= 20:
            self.many.set()
        raise NobodyListens("nobody")


async def test_the_directory_is_read_for_all_workers_at_once() -> None:
    reads = 0

    def workers() -> Mapping[str, tuple[str, ...]]:
        nonlocal reads
        reads += 1
        return {f"w{number}": ("a",) for number in range(20)}

    bus, timing = DeafBus(), WatchTiming(0.001, 0.001, directory_interval=0.001)
    async with running(WorkerWatch(cast("Bus", bus), workers, timing, HeldTasks()).run()):
        async with asyncio.timeout(60):
            await bus.many.wait()
    assert reads <= max(bus.asked.values()) + 2
