"""Inputs whose append got no answer, so it is unknown whether the log has them.

NATS may store a publish long after its sender gave up. A client that sent its message again could
have the work done twice. So the error names the task's id instead, and the gateway repeats the same
append until its outcome is known. Until then no gateway reports the task as unknown: a gateway that
does not find it asks the other gateways first.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.model.errors import (
    BusUnavailable,
    HeadraceError,
    LogFull,
    NobodyListens,
    OutcomeUnknown,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.task import TaskKey, is_task_id
from headrace.wait_for import RECONNECT
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.server.open_requests import unrepeatable_request
from headrace_gateway.tasks.stream_health import StreamHealth


class Unanswered(HeadraceError):
    """The message was accepted, or may have been; the error names its task.

    Sending it again could ask for the work twice, so there is no ``Retry-After``.
    """

    code = "unanswered"

    def __init__(self, message: str, task: str = "", context: str = "") -> None:
        """Keep the task's id, which the client may not have received yet."""
        super().__init__(message)
        self.task, self.context = task, context


class GatewayStopping(Unanswered):
    """The gateway is stopping; the task continues, and another gateway can answer."""

    code = "stopping"

    def __init__(self, reason: str, task: str = "", context: str = "") -> None:
        """Keep which task continues."""
        super().__init__(f"{reason}; task {task} continues", task, context)


class AnswerLost(Unanswered):
    """The message has been accepted, and its result can't be read now."""

    code = "answer_lost"

    def __init__(self, task: str, context: str) -> None:
        """Keep which task continues."""
        message = f"the message was accepted as task {task}, which can't be read now; use GetTask"
        super().__init__(message, task, context)


class Unsettled(Unanswered):
    """It is not known yet whether the log has the message; the gateway keeps trying."""

    code = "unsettled"

    def __init__(self, task: str, context: str) -> None:
        """Keep the id that the task has, or will have."""
        message = f"the message may have been accepted as task {task}; use GetTask, do not resend"
        super().__init__(message, task, context)


_log = logging.getLogger(__name__)

_PAUSE = 0.5
_LOOK_EVERY = 0.05

_ASK = 0.5
"""Seconds for another gateway to answer that it settles an input."""

_AFTERWARDS = 2.0
"""Seconds for which an input still counts as unsettled after it is settled."""

MOST = 1000
"""Maximum number of unsettled inputs; each is held in memory."""


class InputAppends:
    """Carries out appends of inputs, if necessary for longer than their client waits."""

    def __init__(self, bus: Bus, background: BackgroundWork, timeout: float) -> None:
        """Continue in `background` with an append that has no outcome after `timeout` seconds."""
        self._bus, self._background = bus, background
        self.timeout = timeout
        """Seconds after which the outcome of an append counts as unknown."""
        self.streams = StreamHealth(bus)
        self._open = Counter[tuple[str, str]]()
        """By tenant and task."""

    async def ready(self, key: TaskKey) -> None:
        """Return when NATS answers, so that an append will probably have an outcome soon.

        Raises:
            BusUnavailable: NATS does not answer (LogSilent: the task's stream does not). Nothing
                was sent, so repeating the request is safe.
        """
        self.streams.check(key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(self.timeout, RECONNECT)
        while not self._bus.answers or self._open.total() >= MOST:
            if loop.time() > deadline:
                raise BusUnavailable("NATS does not answer")
            await asyncio.sleep(_LOOK_EVERY)

    async def carry_out[Result](
        self,
        key: TaskKey,
        context: str,
        attempt: Callable[[], Awaitable[Result]],
    ) -> Result:
        """Return the result of `attempt`, which stores something and begins what follows.

        If the outcome is unknown, `attempt` is repeated in the background until it is known. A
        repeated `attempt` must find what an earlier one stored, not store it twice.

        Raises:
            Unsettled: the outcome is not known yet; the gateway keeps trying.
            Restarting: the gateway has abandoned the request; nothing has happened.
            HeadraceError: as `attempt`; nothing has happened, and nothing will.
        """
        unsettled, request = Unsettled(key.task, context), unrepeatable_request()
        if request is not None:
            request.storing(unsettled)
        try:
            result = await attempt()
        except OutcomeUnknown as unknown:
            # Started before the client gets the error, so that other gateways can find out first.
            self._background.start(self._settle(key, attempt))
            raise unsettled from unknown
        except HeadraceError as error:
            if request is not None:
                request.stored_nothing()
            if isinstance(error, LogFull):
                self.streams.note_full(key)
            raise
        self.streams.note_stored(key)
        return result

    async def check(self, tenant: str, task: str, unknown: TaskUnknown) -> None:
        """Return if a task that was not found is gone or never existed, and cannot appear later.

        Raises:
            StateUnavailable: a gateway settles its input; or NATS was disconnected a moment ago,
                and a gateway that settles it may not be connected yet.
        """
        if unknown.is_gone or not is_task_id(task):
            return
        is_open = (tenant, task) in self._open or self._was_away()
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
    async def _is_open(self, key: TaskKey) -> AsyncIterator[None]:
        """Announce for a block, here and to other gateways, that an input is being settled."""
        named = key.tenant, key.task
        self._open[named] += 1
        try:
            async with self._bus.answering(self._subject(key.task)):
                yield
        finally:
            self._open -= Counter([named])

    def _subject(self, task: str) -> str:
        return self._bus.among_role(f"settling.{task}")

    async def _settle(self, key: TaskKey, attempt: Callable[[], Awaitable[object]]) -> None:
        _log.warning("task %s: unknown whether its input is stored; retrying", key.task)
        async with self._is_open(key):
            try:
                with self.streams.awaiting(key):
                    await _persistently(attempt)
                _log.info("task %s: its input is stored", key.task)
            except HeadraceError as refused:
                _log.warning("task %s: its input is not stored: %s", key.task, refused)
            # A gateway that looked for the task a moment ago may send its request only now.
            await asyncio.sleep(_AFTERWARDS)


async def _persistently(attempt: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await attempt()
        except BusUnavailable:
            await asyncio.sleep(_PAUSE)
        else:
            return
