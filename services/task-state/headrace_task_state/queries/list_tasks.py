"""Lists of an owner's tasks, complete as of the request's arrival."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime

from headrace.jetstream.connection import Bus
from headrace.log.logged_task import LoggedTask
from headrace.model import json_text
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import ListTasks
from headrace.model.moments import microseconds_of, moment_of
from headrace.model.task import STATES, check_task_id
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.queries.get import read_found
from headrace_task_state.queries.summarized import SummarizedTasks
from headrace_task_state.store import (
    LARGEST_NUMBER,
    After,
    ProjectionBehind,
    Reader,
    StoredPage,
    StoredTask,
)


class Lists:
    """Answers ``list``."""

    def __init__(self, bus: Bus, reader: Reader, frontier: Frontier) -> None:
        """Read the view once it has caught up; summarized tasks are read from their logs."""
        self._reader, self._frontier = reader, frontier
        self._summarized = SummarizedTasks(bus, reader)

    async def list(self, query: ListTasks) -> Json:
        """Return a `TasksFound` as JSON.

        Raises:
            InvalidName: a page token, status or time is invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        after, least = decode_cursor(query.page_token), least_time(query.status_after)
        for state in query.states:
            if state not in STATES:
                raise InvalidName("status", state, "is not a task state")
        heads = await self._frontier.reached()
        page = await self._reader.page(query, least, after, heads)
        found = await asyncio.gather(*(self._read(query, stored) for stored in page.tasks))
        artifacts = query.include_artifacts
        return {
            "tasks": [
                one.fold.task(query.history_length, include_artifacts=artifacts) for one in found
            ],
            "next_page_token": token_after(page),
            "page_size": query.page_size,
            "total_size": page.total,
        }

    async def _read(self, query: ListTasks, stored: StoredTask) -> LoggedTask:
        """Return the task.

        Raises:
            ProjectionBehind: the log shows that the task is gone or has another owner than its
                summary.
        """
        if not stored.is_summary:
            return read_found(stored)
        task = await self._summarized.read(query.tenant, stored)
        if task is None or not (query.any_owner or task.owner == query.owner):
            await self._summarized.complete_soon(query.tenant, stored)
            raise ProjectionBehind("a task on this page is being read from its log; try again")
        return task


def least_time(status_after: str | None) -> int:
    """Return the time in microseconds since 1970, as near as a list's times can be.

    Clients state the zero time of their language for no time: the year 1 in Go and .NET.
    """
    if status_after is None:
        return 0
    try:
        moment = datetime.fromisoformat(status_after)
    except ValueError:
        raise InvalidName(
            "statusTimestampAfter", status_after, "is not an RFC 3339 timestamp"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(microseconds_of(aware), 0), LARGEST_NUMBER)


def time_text(after: After) -> str:
    """Return the time of that place in a list, RFC 3339."""
    return moment_of(after.time).isoformat()


def encode_cursor(after: After) -> str:
    """Return the token of the page after `after`."""
    return urlsafe_b64encode(json_text.encode([after.time, after.task])).decode().rstrip("=")


def token_after(page: StoredPage) -> str:
    """Return the token of the page after `page`; empty: it is the last one."""
    return encode_cursor(place_of(page.tasks[-1])) if page.more else ""


def place_of(stored: StoredTask) -> After:
    """Return the task's place in a list."""
    return After(stored.time, stored.task)


def decode_cursor(token: str) -> After | None:
    """Return where the page of `token` begins; None: an empty token is the first page's.

    Raises:
        InvalidName: the token is invalid.
    """
    if not token:
        return None
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        time, task = json_text.decode(urlsafe_b64decode(padded))
        if type(time) is int and 0 <= time <= LARGEST_NUMBER:
            return After(time, check_task_id(task))
    except (ValueError, TypeError, InvalidName):
        pass
    raise InvalidName("pageToken", token, "must be a page token from a previous response")
