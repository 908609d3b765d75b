"""Run requests that are published in the background, after their inputs were appended."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import override

from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.run import Run
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

    def publish_soon(self, run: Run, then: Then = lambda: None) -> None:
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
                self._start(run, then)

        if not self.send(run, answered):
            self._start(run, then)

    def _start(self, run: Run, then: Then) -> None:
        task = asyncio.Task(
            self._publish(run),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
        task.add_done_callback(lambda _: then())

    async def _publish(self, run: Run) -> None:
        try:
            await self.publish(run)
        except Refused as refused:
            _log.warning("%s; the sweep will publish the run request again", refused)
            if run.generation == 1 and refused.is_full:
                with suppress(BusUnavailable, LogLost):
                    await reject_unstarted(self._bus, run.key, run.generation, QUEUE_FULL)
        except BusUnavailable as error:
            _log.warning("%s; the sweep will publish the run request again", error)
