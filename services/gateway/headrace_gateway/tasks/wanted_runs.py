"""Runs that may wait: admitted before their input is in a log, and asked for when it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.log import Appended
from headrace.model.task import TaskKey
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import Input
from headrace_gateway.tasks.admission import Admission, Admitted


class WantedRuns:
    """Admits runs, and asks workers for them."""

    def __init__(self, bus: Bus, admission: Admission) -> None:
        """Ask on `bus` for what `admission` admits."""
        self._requests, self._admission = BackgroundRuns(bus), admission

    @asynccontextmanager
    async def admitted(self, key: TaskKey) -> AsyncIterator[Admitted]:
        """Yield leave to put one more run into the queue, for a block that appends its input.

        Raises:
            TooManyWaiting: as many wait as may.
        """
        admitted = await self._admission.admit(key)
        try:
            yield admitted
        except BaseException:
            admitted.settle()
            raise

    def request(self, asked: Input, admitted: Admitted, appended: Appended) -> None:
        """Ask workers for the run on an input that was appended."""
        request = asked.run_request(appended)
        asking = self._requests.publish_soon(asked.key, asked.stamp.run, request, asked.priority)
        asking.add_done_callback(lambda _: admitted.settle())
