"""Asking task state: what gateways and workers call instead of Redis."""

import orjson

from headrace.bus import Bus
from headrace.errors import (
    BusUnavailable,
    InvalidName,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
)
from headrace.links import Links
from headrace.messages import (
    BusMessage,
    GetTask,
    ListTasks,
    Refusal,
    StartTask,
    TaskFound,
    TasksFound,
    TaskStarted,
)

TIMEOUT = 5.0
"""Seconds to wait for task state: longer than a takeover of a range takes."""

MORE = "Headrace-More"
"""Header of an answer that is longer than one message: the subject on which the next piece is asked
for. The pieces in a row are the answer."""


class StateClient:
    """Task state's operations as calls.

    Every call raises StateUnavailable when no replica answers in time or the view is being
    rebuilt, and TaskUnknown for a task that is not there or not the caller's.
    """

    def __init__(self, bus: Bus, links: Links | None = None) -> None:
        """Ask over `bus`; `links` show clients where files are."""
        self._bus, self._links = bus, links

    async def get(self, query: GetTask) -> TaskFound:
        """Return one task as of now: never older than the log's tail when the question came."""
        return await self._ask("get", query, TaskFound)

    async def list(self, query: ListTasks) -> TasksFound:
        """Return one page of the owner's tasks, complete as of when the question came."""
        return await self._ask("list", query, TasksFound)

    async def start(self, query: StartTask) -> TaskStarted:
        """Start a delegated task, once however often it is asked for.

        Raises:
            StartRefused: a rule forbids it; trying again does not help.
        """
        return await self._ask("start", query, TaskStarted)

    async def _ask[Answer: BusMessage](
        self, operation: str, query: BusMessage, answer: type[Answer]
    ) -> Answer:
        subject = self._bus.subjects.state(operation)
        try:
            data = await self._fetch(subject, query.encode())
        except BusUnavailable as error:
            raise StateUnavailable("task state does not answer; try again") from error
        if self._links is not None:
            data = self._links.shown(data)
        if "code" in orjson.loads(data):
            raise _error(query, Refusal.decode(subject, data))
        return answer.decode(subject, data)

    async def _fetch(self, subject: str, query: bytes) -> bytes:
        msg = await self._bus.request(subject, query, TIMEOUT)
        pieces = [msg.data]
        while more := (msg.headers or {}).get(MORE):
            msg = await self._bus.request(more, b"", TIMEOUT)
            if not msg.data:
                raise BusUnavailable(f"{more}: the answer is not kept any more")
            pieces.append(msg.data)
        return b"".join(pieces)


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
