"""Asking task state: what gateways and workers call instead of Redis."""

import asyncio
from collections.abc import Awaitable, Callable

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.links import Links
from headrace.log.logged_task import task_in_log
from headrace.model.errors import (
    BusUnavailable,
    InvalidName,
    NobodyListens,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.messages import (
    BusMessage,
    CancelChild,
    Done,
    DropFile,
    GetTask,
    ListTasks,
    OpenQueue,
    Refusal,
    StartTask,
    TaskFound,
    TasksFound,
    TaskStarted,
    TellChild,
)
from headrace.wait_for import ELECTION

TIMEOUT = 5.0
"""Seconds to wait for task state: longer than a takeover of a range takes."""

_PIECE_TIMEOUT = 1.0
"""Seconds to wait for each further piece of an answer, which its replica has in memory."""

_SILENCE = 0.4
"""Seconds without an answer after which all replicas are asked instead of any one."""

_SILENCE_IN_DOUBT = 0.05
"""The same while some replica may be silent."""

_ONCE_MORE = 1.5
"""Seconds after which all replicas are asked once more: some may just have been started."""

_DOUBT = 60.0
"""Seconds for which a replica that was silent is taken to be so still: NATS itself takes a frozen
process out of the queue group only when it has missed its pings."""

_LOG_AFTER = 1.0
"""Seconds after which a task is read from its log instead."""

_CATCH_UP = 8.0
"""Seconds that a view may take to catch up with its log: after an election the former consumer of
the log is given up in 3 of them."""

_NOBODY = 3.0
"""Seconds for which nobody listens while replicas find another server, or start again."""

_BETWEEN_ROUNDS = 0.25

MORE = "Headrace-More"
"""Header of an answer that is longer than one message: the subject on which the next piece is asked
for. The pieces in a row are the answer."""


type CheckUnknown = Callable[[str, str, TaskUnknown], Awaitable[None]]
"""Given the tenant and id of a task that nobody finds, and what says so: returns if it is none, and
raises StateUnavailable if that can't be known now."""


class StateClient:
    """Task state's operations as calls.

    Every call raises StateUnavailable when no replica answers in time (`get`: and the log does not
    either) and TaskUnknown for a task that is not there or not the caller's.

    A question goes to any one replica. Is that one silent, all are asked, so a frozen replica costs
    the first questions less than a second and those after them 50 ms. The election of a log's
    leader is waited out.
    """

    def __init__(
        self, bus: Bus, links: Links | None = None, check_unknown: CheckUnknown | None = None
    ) -> None:
        """Ask over `bus`; `links` show clients where files are.

        `check_unknown` has the last say on a task that nobody finds.
        """
        self._bus, self._links, self._check_unknown = bus, links, check_unknown
        self._doubt_until = 0.0
        self._nobody_until: float | None = None
        """When it counts as known that nobody listens; None: somebody does."""

    async def get(self, query: GetTask) -> TaskFound:
        """Return one task as of now: never older than the log's tail when the question came.

        Where task state can't tell soon, the log does.
        """
        try:
            return await self._get(query)
        except TaskUnknown as unknown:
            if self._check_unknown is not None:
                await self._check_unknown(query.tenant, query.task, unknown)
            raise

    async def _get(self, query: GetTask) -> TaskFound:
        try:
            async with asyncio.timeout(_LOG_AFTER):
                return await self._ask("get", query, TaskFound)
        except (StateUnavailable, TimeoutError):
            return await self._from_log(query)

    async def _from_log(self, query: GetTask) -> TaskFound:
        try:
            found = await task_in_log(self._bus, query)
        except BusUnavailable as error:
            raise StateUnavailable(f"the log can't be read: {error}") from error
        if self._links is None:
            return found
        return TaskFound.decode("log", self._links.shown(found.encode()))

    async def list(self, query: ListTasks) -> TasksFound:
        """Return one page of the owner's tasks, complete as of when the question came."""
        return await self._ask("list", query, TasksFound)

    async def start(self, query: StartTask) -> TaskStarted:
        """Start a delegated task, once however often it is asked for.

        Raises:
            StartRefused: a rule forbids it; trying again does not help.
        """
        return await self._ask(f"start.{query.parent_agent}", query, TaskStarted)

    async def cancel(self, query: CancelChild) -> None:
        """Have a child canceled; what has not ended within seconds goes on ending by itself."""
        await self._ask(f"cancel.{query.parent_agent}", query, Done)

    async def tell(self, query: TellChild) -> int | None:
        """Hand a message to a child's holder; return its generation; None: nobody took it."""
        return (await self._ask(f"tell.{query.parent_agent}", query, Done)).generation

    async def open_queue(self, query: OpenQueue) -> None:
        """Have a queue made, where the worker that asks may not."""
        await self._ask(f"queue.{query.agent}", query, Done)

    async def drop(self, query: DropFile) -> None:
        """Have a file forgotten."""
        await self._ask(f"drop.{query.agent}", query, Done)

    async def _ask[Answer: BusMessage](
        self, operation: str, query: BusMessage, answer: type[Answer]
    ) -> Answer:
        question = query.encode()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                data = await self._fetch(operation, question)
            except BusUnavailable as error:
                raise StateUnavailable("task state does not answer; try again") from error
            if self._links is not None:
                data = self._links.shown(data)
            if "code" not in orjson.loads(data):
                return answer.decode(operation, data)
            refusal = Refusal.decode(operation, data)
            if loop.time() > begun + _timeout(refusal):
                raise _error(query, refusal)
            await asyncio.sleep(_BETWEEN_ROUNDS)

    async def _fetch(self, operation: str, question: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT
        while True:
            try:
                msg = await self._first_answer(operation, question)
                self._nobody_until = None
                return await self._whole(msg)
            except NobodyListens:
                if self._nobody_until is None:
                    self._nobody_until = loop.time() + _NOBODY
                if loop.time() > self._nobody_until:
                    raise
            except BusUnavailable:
                # As if the replica that has the other pieces is silent now: the others answer.
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_BETWEEN_ROUNDS)

    async def _first_answer(self, operation: str, question: bytes) -> Msg:
        """Return what the first replica that answers says.

        Raises:
            BusUnavailable: none did.
        """
        loop, subjects = asyncio.get_running_loop(), self._bus.subjects
        silence = _SILENCE_IN_DOUBT if loop.time() < self._doubt_until else _SILENCE
        one, everybody = subjects.state(operation), subjects.state(operation, of_all=True)
        first = asyncio.ensure_future(self._bus.request(one, question, TIMEOUT))
        asking = {first}
        try:
            for pause in (silence, _ONCE_MORE, TIMEOUT):
                msg = await _first_of(asking, pause)
                if msg is not None:
                    if not first.done():
                        # The others were asked later, and have answered.
                        self._doubt_until = loop.time() + _DOUBT
                    return msg
                asking.add(asyncio.ensure_future(self._bus.request(everybody, question, TIMEOUT)))
            raise BusUnavailable(f"{one}: no answer")
        finally:
            for waiting in asking:
                waiting.cancel()

    async def _whole(self, msg: Msg) -> bytes:
        pieces = [msg.data]
        while more := (msg.headers or {}).get(MORE):
            msg = await self._bus.request(more, b"", _PIECE_TIMEOUT)
            if not msg.data:
                raise BusUnavailable(f"{more}: the answer has been deleted")
            pieces.append(msg.data)
        return b"".join(pieces)


async def _first_of(asking: set[asyncio.Task[Msg]], timeout: float) -> Msg | None:
    """Return the first answer that comes within `timeout` seconds; None: none has.

    Raises:
        BusUnavailable: no answer can come any more.
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
            raise done.pop().exception() or BusUnavailable("no answer")
        asking -= done


def _timeout(refusal: Refusal) -> float:
    """Return for how many seconds from the first one on a question is asked again."""
    if refusal.why == "no_leader":
        return ELECTION
    return _CATCH_UP if refusal.is_late else -1.0


def _error(query: BusMessage, refusal: Refusal) -> Exception:
    match refusal.code:
        case "task_unknown":
            return TaskUnknown(refusal.message)
        case "state_unavailable":
            return StateUnavailable(refusal.message)
        case "bad_request":
            if isinstance(query, StartTask):
                return InvalidName("start", query.agent, refusal.message)
            token = query.page_token if isinstance(query, ListTasks) else ""
            return InvalidName("pageToken", token, refusal.message)
        case "start_refused":
            return StartRefused(refusal.why or "", refusal.message)
