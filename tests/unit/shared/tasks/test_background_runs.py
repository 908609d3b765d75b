"""Run requests in the background are sent at once, and awaited later."""

import asyncio

from headrace.model.messages import RunRequest
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey
from headrace.tasks.background_runs import BackgroundRuns
from tests.support.fake_bus import FakeBus

KEY = TaskKey("default", "echo", "0-" + "0" * 32)


async def test_a_run_request_is_sent_before_the_loops_next_iteration() -> None:
    bus = FakeBus(lambda *_: {"stream": "RUNS", "seq": 1})
    runs = BackgroundRuns(bus)
    # Its queue was opened a moment ago.
    runs._queues._known[RunQueue.of(KEY, NORMAL)] = asyncio.get_running_loop().time()
    runs.publish_soon(KEY, 1, RunRequest(log="abcdefgh", context="c", owner="o"))
    assert bus.asked == [bus.subjects.run(KEY, 1)]
