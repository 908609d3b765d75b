"""Runs that may wait: admitted before their input is in a log, and asked for when it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.model.events import PRIORITY, TRACEPARENT, Json
from headrace.model.messages import Run
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey
from headrace.tasks.runs import RunRequests
from headrace_gateway.tasks.admission import Admission, Admitted


class WantedRuns:
    """Admits runs, and asks workers for them."""

    def __init__(self, bus: Bus, admission: Admission) -> None:
        """Ask on `bus` for what `admission` admits."""
        self._requests, self._admission = RunRequests(bus), admission

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

    def ask_for(
        self, key: TaskKey, leg: int, run: Run, metadata: Json | None, admitted: Admitted
    ) -> None:
        """Ask for a leg on the terms in its input's `metadata`."""
        terms = metadata or {}
        if TRACEPARENT in terms:
            run = run.model_copy(update={"traceparent": terms[TRACEPARENT]})
        asking = self._requests.ask_for(key, leg, run, terms.get(PRIORITY, NORMAL))
        asking.add_done_callback(lambda _: admitted.settle())
