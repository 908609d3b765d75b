"""Inputs whose append got no answer, so it is unknown whether the log has them.

NATS may store a publish long after its sender gave up. A client that sent its message again could
have the work done twice. So the error names the task's id instead, and the gateway repeats the same
append until its outcome is known. Until then no gateway reports the task as unknown: a gateway that
does not find it asks the other gateways first.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from headrace.jetstream.connection import Bus
from headrace.model.errors import (
    BusUnavailable,
    HeadraceError,
    NobodyListens,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.task import TaskKey, is_task_id
from headrace.wait_for import RECONNECT
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.tasks.stream_health import StreamHealth

_log = logging.getLogger(__name__)

_PAUSE = 0.5
_LOOK_EVERY = 0.05

_ASK = 0.5
"""Seconds for another gateway to answer that it settles an input."""

_AFTERWARDS = 2.0
"""Seconds for which an input still counts as unsettled after it is settled."""

MOST = 1000
"""Maximum number of unsettled inputs; each is held in memory."""


class Append[Result](Protocol):
    """Something to store in a log, with what follows if it is stored."""

    @property
    def key(self) -> TaskKey:
        """The key of the log."""

    @property
    def context(self) -> str:
        """The task's context."""

    async def store(self) -> Result:
        """Store it; a repetition finds what an earlier call stored, and stores it once.

        Raises:
            OutcomeUnknown: it is unknown whether it is stored.
            HeadraceError: it is not stored, and never will be.
        """


class Settlement:
    """Repeats appends without an answer until their outcome is known."""

    def __init__(self, bus: Bus, background: BackgroundWork, timeout: float) -> None:
        """Repeat in `background` what has no outcome after `timeout` seconds."""
        self._bus, self.background = bus, background
        self.timeout = timeout
        """Seconds after which the outcome of an append counts as unknown."""
        self.health = StreamHealth(bus)
        self.open = Counter[tuple[str, str]]()
        """Number of unsettled inputs by tenant and task."""

    async def ready(self, key: TaskKey) -> None:
        """Return when NATS answers, so that an append will probably have an outcome soon.

        Raises:
            BusUnavailable: NATS does not answer (LogSilent: the task's stream does not). Nothing
                was sent, so repeating the request is safe.
        """
        self.health.check(key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(self.timeout, RECONNECT)
        while not self._bus.answers or self.open.total() >= MOST:
            if loop.time() > deadline:
                raise BusUnavailable("NATS does not answer")
            await asyncio.sleep(_LOOK_EVERY)

    def begin(self, append: Append[object]) -> None:
        """Begin to settle `append`, and announce it to the other gateways."""
        self.background.start(self._settle(append))

    async def check(self, tenant: str, task: str, unknown: TaskUnknown) -> None:
        """Return if a task that was not found is gone or never existed, and cannot appear later.

        Raises:
            StateUnavailable: a gateway settles its input; or NATS was disconnected a moment ago,
                and a gateway that settles it may not be connected yet.
        """
        if unknown.is_gone or not is_task_id(task):
            return
        is_open = (tenant, task) in self.open or self._was_away()
        if is_open or await self._is_open_elsewhere(task):
            raise StateUnavailable(f"it is unknown whether the input of {task} has been stored")

    def _was_away(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not self._bus.answers or now < self._bus.back_since + RECONNECT

    async def _is_open_elsewhere(self, task: str) -> bool:
        try:
            await self._bus.request(self._subject(task), b"", _ASK)
        except NobodyListens:
            return False
        except BusUnavailable:
            return True  # A gateway is subscribed, but did not answer in time.
        return True

    @asynccontextmanager
    async def announced(self, key: TaskKey) -> AsyncIterator[None]:
        """Announce for a block, here and to other gateways, that an input is being settled."""
        named = key.tenant, key.task
        self.open[named] += 1
        try:
            async with self._bus.answering(self._subject(key.task)):
                yield
        finally:
            self.open -= Counter([named])

    def _subject(self, task: str) -> str:
        return self._bus.among_role(f"settling.{task}")

    async def _settle(self, append: Append[object]) -> None:
        key = append.key
        _log.warning("task %s: unknown whether its input is stored; retrying", key.task)
        async with self.announced(key):
            try:
                with self.health.awaiting(key):
                    await _store(append)
                _log.info("task %s: its input is stored", key.task)
            except HeadraceError as refused:
                _log.warning("task %s: its input is not stored: %s", key.task, refused)
            # A gateway that looked for the task a moment ago may send its request only now.
            await asyncio.sleep(_AFTERWARDS)


async def _store(append: Append[object]) -> None:
    while True:
        try:
            await append.store()
        except BusUnavailable:
            await asyncio.sleep(_PAUSE)
        else:
            return
