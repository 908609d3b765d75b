"""Run requests that are published in the background, after their inputs were appended."""

import asyncio
import logging
from contextlib import suppress
from typing import override

from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.messages import RunRequest
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey
from headrace.tasks.end import QUEUE_FULL, reject_unstarted
from headrace.tasks.runs import RunRequests

_log = logging.getLogger(__name__)


class BackgroundRuns(RunRequests):
    """Publishes run requests in the background."""

    @override
    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._publishing: set[asyncio.Task[None]] = set()

    def publish_soon(
        self, key: TaskKey, generation: int, request: RunRequest, priority: str = NORMAL
    ) -> asyncio.Task[None]:
        """Like `publish`, but in the background; return its task.

        If it fails, task state's sweep publishes the run request again. If the queue is full, a
        first input is rejected, so that its client gets an error.
        """
        # At once, because under load the loop's next iteration may be milliseconds away.
        task = asyncio.Task(
            self._publish(key, generation, request, priority),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )
        if not task.done():
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)
        return task

    async def _publish(
        self, key: TaskKey, generation: int, request: RunRequest, priority: str
    ) -> None:
        try:
            await self.publish(key, generation, request, priority)
        except Refused as refused:
            _log.warning("%s; the sweep will publish the run request again", refused)
            if generation == 1 and refused.is_full:
                with suppress(BusUnavailable, LogLost):
                    await reject_unstarted(self._bus, key, generation, QUEUE_FULL)
        except BusUnavailable as trouble:
            _log.warning("%s; the sweep will publish the run request again", trouble)
