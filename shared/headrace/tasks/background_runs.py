"""Run requests that are published in the background, after their inputs were appended."""

import asyncio
import logging
from collections.abc import Callable
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


type Then = Callable[[], None]
"""Called when a run request is in the queue, or will not be."""


class BackgroundRuns(RunRequests):
    """Publishes run requests in the background."""

    @override
    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._publishing: set[asyncio.Task[None]] = set()

    def publish_soon(
        self,
        key: TaskKey,
        generation: int,
        request: RunRequest,
        priority: str = NORMAL,
        then: Then = lambda: None,
    ) -> None:
        """Like `publish`, but in the background; call `then` afterwards.

        If it fails, task state's sweep publishes the run request again. If the queue is full, a
        first input is rejected, so that its client gets an error.

        It is sent before this returns, because under load the loop's next iteration may be
        milliseconds away. Usually no asyncio task is needed: only what is not acknowledged is
        published again in one, and a copy is harmless.
        """

        def answered(is_stored: bool) -> None:  # noqa: FBT001 - the callback's only argument
            if is_stored:
                then()
            else:
                self._start(key, generation, request, priority, then)

        if not self.send(key, generation, request, priority, answered):
            self._start(key, generation, request, priority, then)

    def _start(
        self, key: TaskKey, generation: int, request: RunRequest, priority: str, then: Then
    ) -> None:
        task = asyncio.Task(
            self._publish(key, generation, request, priority),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
        task.add_done_callback(lambda _: then())

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
        except BusUnavailable as error:
            _log.warning("%s; the sweep will publish the run request again", error)
