"""Lists of an owner's tasks, complete as of when the question came."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime

import orjson

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import ListTasks
from headrace.model.task import STATES, check_task_id
from headrace_task_state.queries.found import read_found
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import After, Reader, StoredTask

_EARLIEST = "-inf"


class Lists:
    """Answers ``list``."""

    def __init__(self, reader: Reader, frontier: Frontier) -> None:
        """Read the view once it has caught up."""
        self._reader, self._frontier = reader, frontier

    async def list(self, query: ListTasks) -> Json:
        """Return a `TasksFound` as JSON.

        Raises:
            InvalidName: a page token, status or time is none.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        after, least = decode_cursor(query.page_token), _least(query.status_after)
        if query.status not in STATES | {None}:
            raise InvalidName("status", query.status or "", "is no task state")
        heads = await self._frontier.reached()
        page = await self._reader.page(query, least, after, heads)
        last = page.tasks[-1] if page.more else None
        return {
            "tasks": [_task(stored, query) for stored in page.tasks],
            "next_page_token": encode_cursor(After(last.time, last.task)) if last else "",
            "page_size": query.page_size,
            "total_size": page.total,
        }


def _task(stored: StoredTask, query: ListTasks) -> Json:
    found = read_found(stored)
    return found.fold.task(query.history_length, include_artifacts=query.include_artifacts)


def _least(status_after: str | None) -> str:
    """Return the time in microseconds since 1970, rounded up."""
    if status_after is None:
        return _EARLIEST
    try:
        moment = datetime.fromisoformat(status_after)
    except ValueError:
        raise InvalidName("statusTimestampAfter", status_after, "is no RFC 3339 time") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return str(round(aware.timestamp() * 1_000_000))


def encode_cursor(after: After) -> str:
    """Return the token of the page behind `after`."""
    return urlsafe_b64encode(orjson.dumps([int(after.time), after.task])).decode().rstrip("=")


def decode_cursor(token: str) -> After:
    """Return where the page of `token` begins; an empty one is the first page's.

    Raises:
        InvalidName: nobody was given this token.
    """
    if not token:
        return After()
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        time, task = orjson.loads(urlsafe_b64decode(padded))
        return After(str(time + 0), check_task_id(task))
    except (ValueError, TypeError, InvalidName):
        raise InvalidName("pageToken", token, "is not one that a list has returned") from None
