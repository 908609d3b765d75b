"""The client of task state, which gateways and workers use instead of Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nats.aio.msg import Msg

from headrace import log_context, tracing
from headrace.jetstream.connection import Bus
from headrace.links import MARK, Links
from headrace.log.logged_task import LoggedTask, task_in_log, task_in_short_log, task_of
from headrace.model import json_text
from headrace.model import state_operations as op
from headrace.model.entry import Entry, check_version, stating
from headrace.model.errors import (
    BusUnavailable,
    InvalidName,
    LogLost,
    LogTooNew,
    NobodyListens,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
    UndecodableMessage,
)
from headrace.model.fold import TaskFold
from headrace.model.messages import (
    BusMessage,
    CancelChild,
    ChildInput,
    CountOpenTasks,
    DropFile,
    FindTasks,
    GetTask,
    GetUsage,
    ListTasks,
    ListThreads,
    OpenQueue,
    OpenTasksCounted,
    Refusal,
    RowsFound,
    StartTask,
    TaskFound,
    TasksFound,
    TaskStarted,
    ThreadsFound,
    UsageFound,
    WaitForEnd,
    WaitForEvent,
)
from headrace.model.state_operations import StateOperation
from headrace.wait_for import ELECTION, RECONNECT

TIMEOUT = 5.0
"""Seconds to wait for task state; longer than the takeover of a range."""

_PIECE_TIMEOUT = 1.0
"""Seconds to wait for each further piece of an answer, which the replica holds in memory."""

_SILENCE = 0.4
"""Seconds without an answer after which all replicas are queried instead of one."""

_SILENCE_IN_DOUBT = 0.05
"""The same while a replica is suspected to be silent."""

_ONCE_MORE = 1.5
"""Seconds after which all replicas are queried again, because some may have just started."""

_DOUBT = 60.0
"""Seconds for which a silent replica is assumed to stay silent. NATS removes a frozen process from
the queue group only after it has missed its pings."""

_SHORT_LOG = 0.4
"""Seconds that a log, if it is short, has to answer before task state is asked."""

_LOG_AFTER = 1.0
"""Seconds after which a task is read from its log instead."""

_NOBODY = RECONNECT
"""Seconds without listeners while replicas reconnect to another server or restart."""

_BETWEEN_ROUNDS = 0.25

MORE = "Headrace-More"
"""Header of an answer that is longer than one message: the subject that returns the next piece. The
concatenated pieces are the answer."""


type CheckUnknown = Callable[[str, str, TaskUnknown], Awaitable[None]]
"""Called with the tenant and id of a task that was not found, and the error. Returns if the task
does not exist. Raises StateUnavailable if that can't be determined now."""


@dataclass(frozen=True, slots=True)
class TaskRead:
    """A task as of now."""

    found: TaskFound
    logged: LoggedTask | None = None
    """The same, to be continued by later entries, if it was read from its log."""


class StateClient:
    """Task state's operations as calls.

    Every call raises StateUnavailable if no replica answers in time (`get`: if the log does not
    answer either), and TaskUnknown for a task that does not exist or is not the caller's.

    A request goes to any one replica. If that replica is silent, all are queried. So a frozen
    replica delays the first requests by less than a second and later ones by 50 ms. Calls wait for
    the election of a log's leader.
    """

    def __init__(
        self,
        bus: Bus,
        links: Links | None = None,
        check_unknown: CheckUnknown | None = None,
        retry_seconds: float = ELECTION,
    ) -> None:
        """Send requests over `bus`.

        Args:
            bus: The connection.
            links: Converts file links to URLs for clients.
            check_unknown: Decides finally on a task that was not found.
            retry_seconds: For how long a request is repeated that has to wait for an election, or
                for the view, which is behind its log or late.
        """
        self._retry_seconds = retry_seconds
        self._bus, self._links, self._check_unknown = bus, links, check_unknown
        self._doubt_until = 0.0
        self._nobody_until: float | None = None
        """When the lack of listeners counts as confirmed. None: there are listeners."""

    async def get(self, query: GetTask) -> TaskFound:
        """Return one task as of now, never older than the log's tail at the time of the call.

        A task that has no run now, and a short log, is read from that. So is every task that task
        state does not soon answer for.
        """
        return (await self.read(query)).found

    async def read(self, query: GetTask) -> TaskRead:
        """Return one task as `get` does, for a caller that is going to append to its log."""
        logged = None
        # Task state and its client know how long to wait, and what the caller is to be told.
        with suppress(BusUnavailable, LogLost, LogTooNew, TimeoutError):
            async with asyncio.timeout(_SHORT_LOG):
                logged = await task_in_short_log(self._bus, query, self._shown)
        if logged is not None:
            return TaskRead(logged.found(query.history_length), logged)
        try:
            return TaskRead(await self._get(query))
        except TaskUnknown as unknown:
            if self._check_unknown is not None:
                await self._check_unknown(query.tenant, query.task, unknown)
            raise

    def read_in(
        self, query: GetTask, entries: Sequence[Entry], fold: TaskFold | None = None
    ) -> TaskRead | None:
        """Return the caller's task as it is after `entries`, its whole log, as `read` does.

        `fold` is what they make of it, if that is known. None: the task is not the caller's.
        """
        if query.agent is None:
            return None
        logged = task_of(query, query.agent, entries, self._shown, fold)
        return None if logged is None else TaskRead(logged.found(query.history_length), logged)

    def _shown(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries with their links as URLs; most logs have none."""
        if (links := self._links) is not None:
            for entry in entries:
                for line in entry.lines:
                    if MARK in line:
                        return [links.entry(one) for one in entries]
        return entries

    async def _get(self, query: GetTask) -> TaskFound:
        try:
            async with asyncio.timeout(_LOG_AFTER):
                return await self._ask(op.GET, query)
        except (StateUnavailable, TimeoutError):
            return await self._from_log(query)

    async def _from_log(self, query: GetTask) -> TaskFound:
        try:
            found = await task_in_log(self._bus, query)
        except BusUnavailable as error:
            raise StateUnavailable(f"the log can't be read: {error}") from error
        if self._links is None or MARK not in (text := found.encode()):
            return found
        return TaskFound.decode("log", self._links.shown(text))

    async def list(self, query: ListTasks) -> TasksFound:
        """Return one page of the owner's tasks, complete as of the time of the call."""
        return await self._ask(op.LIST, query)

    async def find(self, query: FindTasks) -> RowsFound:
        """Return one page of rows, complete as of the time of the call."""
        return await self._ask(op.FIND, query)

    async def usage(self, query: GetUsage) -> UsageFound:
        """Return what a tenant's runs have used, complete as of the time of the call.

        Raises:
            InvalidName: the days are invalid.
        """
        return await self._ask(op.USAGE, query)

    async def open_tasks(self, query: CountOpenTasks) -> OpenTasksCounted:
        """Return how many tasks of an agent are not over, complete as of the time of the call."""
        return await self._ask(op.OPEN, query)

    async def threads(self, query: ListThreads) -> ThreadsFound:
        """Return one page of an owner's threads, complete as of the time of the call."""
        return await self._ask(op.THREADS, query)

    async def start(self, query: StartTask) -> TaskStarted:
        """Start a delegated task. Repeated calls start it once.

        Raises:
            StartRefused: A rule forbids it. A retry does not help.
        """
        return await self._ask(op.START, query, query.parent_agent)

    async def cancel(self, query: CancelChild) -> None:
        """Cancel a child task. It may end some time after the call."""
        await self._ask(op.CANCEL, query, query.parent_agent)

    async def send_input(self, query: ChildInput) -> int | None:
        """Send a message to a child's holder and return its generation. None: not accepted."""
        return (await self._ask(op.INPUT, query, query.parent_agent)).generation

    async def open_queue(self, query: OpenQueue) -> None:
        """Have a queue created, for a worker that may not create it."""
        await self._ask(op.QUEUE, query, query.agent)

    async def drop(self, query: DropFile) -> None:
        """Delete a file."""
        await self._ask(op.DROP, query, query.agent)

    async def wait_for_end(self, query: WaitForEnd) -> None:
        """Have a run woken when another task ends.

        Raises:
            TaskUnknown: The run's owner has no such task.
            InvalidName: That task waits for the run's, or too many runs wait for its end.
        """
        await self._ask(op.WAIT, query, query.agent)

    async def wait_for_event(self, query: WaitForEvent) -> None:
        """Have a run woken by an event on a subject.

        Raises:
            InvalidName: The run's tenant may not use the subject, or has too many such waits, or
                what is to match is malformed.
        """
        await self._ask(op.LISTEN, query, query.agent)

    async def _ask[Request: BusMessage, Answer: BusMessage](
        self, asked: StateOperation[Request, Answer], query: Request, agent: str = ""
    ) -> Answer:
        """Ask; for a worker of `agent` if that is stated."""
        operation = f"{asked.name}.{agent}" if agent else asked.name
        question = query.encode()
        loop = asyncio.get_running_loop()
        started = loop.time()
        while True:
            try:
                data = await self._fetch(operation, question)
            except BusUnavailable as error:
                raise StateUnavailable("task state does not answer; try again") from error
            except UndecodableMessage as error:
                raise StateUnavailable(f"the answer of task state: {error.reason}") from error
            if self._links is not None and MARK in data:
                data = self._links.shown(data)
            if "code" not in json_text.decode(data):
                return asked.answer.decode(operation, data)
            refusal = Refusal.decode(operation, data)
            if not refusal.is_temporary or loop.time() > started + self._retry_seconds:
                raise _error(query, refusal)
            await asyncio.sleep(_BETWEEN_ROUNDS)

    async def _fetch(self, operation: str, question: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT
        while True:
            try:
                msg = await self._first_answer(operation, question)
                self._nobody_until = None
                return await self._reassembled(msg)
            except NobodyListens:
                if self._nobody_until is None:
                    self._nobody_until = loop.time() + _NOBODY
                if loop.time() > self._nobody_until:
                    raise
            except BusUnavailable:
                # The replica with the remaining pieces counts as silent now; the others answer.
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_BETWEEN_ROUNDS)

    async def _first_answer(self, operation: str, question: bytes) -> Msg:
        """Return the answer of the first replica that answers.

        Raises:
            BusUnavailable: No replica answered.
        """
        loop, subjects = asyncio.get_running_loop(), self._bus.subjects
        silence = _SILENCE_IN_DOUBT if loop.time() < self._doubt_until else _SILENCE
        one, everybody = subjects.state(operation), subjects.state(operation, of_all=True)
        headers = stating(self._bus.settings.log_version)
        if traceparent := tracing.current_traceparent() or log_context.current().traceparent:
            headers[tracing.TRACEPARENT] = traceparent
        first = asyncio.ensure_future(self._bus.request(one, question, TIMEOUT, headers))
        asking = {first}
        try:
            for pause in (silence, _ONCE_MORE, TIMEOUT):
                msg = await _first_of(asking, pause)
                if msg is not None:
                    if not first.done():
                        # The others were queried later and have answered.
                        self._doubt_until = loop.time() + _DOUBT
                    return msg
                again = self._bus.request(everybody, question, TIMEOUT, headers)
                asking.add(asyncio.ensure_future(again))
            raise BusUnavailable(f"{one}: no response")
        finally:
            for waiting in asking:
                waiting.cancel()

    async def _reassembled(self, msg: Msg) -> bytes:
        check_version(msg.subject, msg.headers)
        pieces = [msg.data]
        while more := (msg.headers or {}).get(MORE):
            msg = await self._bus.request(more, b"", _PIECE_TIMEOUT)
            if not msg.data:
                raise BusUnavailable(f"{more}: the answer has been deleted")
            pieces.append(msg.data)
        return b"".join(pieces)


async def _first_of(asking: set[asyncio.Task[Msg]], timeout: float) -> Msg | None:
    """Return the first answer within `timeout` seconds. None: no answer came.

    Raises:
        BusUnavailable: All requests have failed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        left = max(deadline - loop.time(), 0.0)
        done, open_ = await asyncio.wait(asking, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        answers = [one.result() for one in done if one.exception() is None]
        if answers:
            return answers[0]
        if not done:
            return None
        if not open_:
            raise done.pop().exception() or BusUnavailable("no response")
        asking -= done


def _error(query: BusMessage, refusal: Refusal) -> Exception:
    match refusal.code:
        case "task_unknown":
            return TaskUnknown(refusal.message)
        case "state_unavailable":
            return StateUnavailable(refusal.message)
        case "bad_request":
            return _malformed(query, refusal.message)
        case "start_refused":
            return StartRefused(refusal.why or "", refusal.message)


def _malformed(query: BusMessage, why: str) -> InvalidName:
    match query:
        case StartTask():
            return InvalidName("start", query.agent, why)
        case GetUsage():
            return InvalidName("period", query.first, why)
        case WaitForEvent():
            return InvalidName("subject", query.subject, why)
        case WaitForEnd():
            return InvalidName("task", query.awaited, why)
        case ListTasks() | ListThreads():
            return InvalidName("pageToken", query.page_token, why)
    return InvalidName("pageToken", "", why)
