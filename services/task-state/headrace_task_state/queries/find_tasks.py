"""Rows of tasks of all agents, with their counts by state, complete as of the request's arrival."""

import asyncio
from collections import Counter
from itertools import groupby

from headrace.jetstream.connection import Bus
from headrace.model import json_text
from headrace.model.change import IN
from headrace.model.events import Json
from headrace.model.messages import FindTasks, TaskRow
from headrace.model.task import INTERRUPTED
from headrace_task_state.queries.frontier import Frontier, ViewBehind
from headrace_task_state.queries.list_tasks import (
    decode_cursor,
    encode_cursor,
    least_time,
    place_of,
    time_text,
    token_after,
)
from headrace_task_state.queries.summarized import SummarizedTasks
from headrace_task_state.store import Reader, StoredPage, StoredTask

_SEARCHED = 20_000
"""Maximum number of tasks that one search looks through."""

_READ_AT_ONCE = 500
"""Tasks per command to the store while a text is looked for: it answers nobody else meanwhile."""

_MOST_URGENT = 100
_LONGEST = 200
"""Maximum characters of a row's texts."""

_SHORTEST_ID = 8
"""Characters of a text from which on it is looked for in ids, too: fewer are in many by chance."""


class TaskRows:
    """Answers ``find``."""

    def __init__(
        self, bus: Bus, reader: Reader, frontier: Frontier, searched: int = _SEARCHED
    ) -> None:
        """Read the view once it has caught up; summarized tasks are read from their logs.

        A search reads at most `searched` tasks, in whole reads of 500; its next page goes
        on behind them.
        """
        self._reader, self._frontier, self._searched = reader, frontier, searched
        self._summarized = SummarizedTasks(bus, reader)

    async def find(self, query: FindTasks) -> Json:
        """Return a `RowsFound` as JSON.

        Raises:
            InvalidName: the page token or the time is invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        least = least_time(query.status_after)
        if query.text:
            return await self._search(_Search(query), least)
        after = decode_cursor(query.page_token)
        heads = await self._frontier.reached()
        page = await self._reader.page(query, least, after, heads, openings=True)
        rows = await asyncio.gather(*map(self._row, page.tasks, [query.tenant] * len(page.tasks)))
        return {
            "tasks": [row.model_dump() for row in rows],
            "counts": dict(page.counts),
            "total_size": page.total,
            "next_page_token": token_after(page),
        }

    async def _search(self, search: "_Search", least: int) -> Json:
        """Return a page of the tasks that contain the text.

        Raises:
            ViewBehind: some are still to be read from their logs, so their texts are not known.
        """
        heads = await self._frontier.reached()
        query = search.query.model_copy(update={"states": [], "page_size": _READ_AT_ONCE})
        sought = sought_in(query.text)
        for _ in range(0, self._searched, _READ_AT_ONCE):
            page = await self._reader.page(
                query, least, search.read_to, heads, openings=True, sought=sought
            )
            if summaries := [one for one in page.tasks if one.is_summary]:
                for stored in summaries[:_MOST_URGENT]:
                    await self._summarized.complete_soon(query.tenant, stored)
                raise ViewBehind("tasks are still being read from their logs; try again")
            search.look_at(page)
            if search.is_over:
                break
        return search.answer()

    async def _row(self, stored: StoredTask, tenant: str) -> TaskRow:
        row = _row_of(stored)
        if not stored.is_summary:
            return row
        found = await self._summarized.read(tenant, stored)
        if found is None:
            return row
        [*_, first] = found.fold.task(None).get("history", [])[:1] or [{}]
        return row.model_copy(update={"title": _line(first)})


def sought_in(text: str) -> str:
    """Return the words that the store looks for: each is in the JSON of all tasks with the text.

    They are its runs of letters and digits without a case other than ASCII's: quotes are escaped
    in JSON, and the store knows no other letters' case, but those of `BECOME_ASCII`. Empty: there
    are none.
    """
    runs = groupby(
        text.casefold(),
        lambda one: one.isalnum() and (one.isascii() or one.lower() == one.upper()),
    )
    return " ".join("".join(run) for is_sought, run in runs if is_sought)


class _Search:
    """The tasks of one part of a list that contain a text, and a page of them.

    A page token names where the part begins and, behind a dot, the last task of the page before.
    """

    def __init__(self, query: FindTasks) -> None:
        """Begin where the query's page token says.

        Raises:
            InvalidName: the page token is invalid.
        """
        self._begin, _, last = query.page_token.rpartition(".")
        self.query, self._text = query, query.text.casefold()
        self._after = decode_cursor(last)
        self.read_to = decode_cursor(self._begin)
        """The task up to which the list has been read; None: nothing has."""
        self.is_over = False
        """Whether the list ends there."""
        self._counts, self._total, self._has_more = Counter[str](), 0, False
        self._rows = list[TaskRow]()
        self._last: StoredTask | None = None

    def look_at(self, page: StoredPage) -> None:
        """Take the next tasks of the list."""
        for stored in page.tasks:
            if _contains(stored, self._text):
                self._take(stored)
        self.is_over = not page.more
        self.read_to = page.last or self.read_to

    def _take(self, stored: StoredTask) -> None:
        row = _row_of(stored)
        self._counts[row.state] += 1
        if self.query.states and row.state not in self.query.states:
            return
        self._total += 1
        if not self._is_behind(stored):
            return
        if len(self._rows) == self.query.page_size:
            self._has_more = True
            return
        self._rows.append(row)
        self._last = stored

    def answer(self) -> Json:
        """Return a `RowsFound` as JSON."""
        return {
            "tasks": [row.model_dump() for row in self._rows],
            "counts": dict(self._counts),
            "total_size": self._total,
            "next_page_token": self._next(),
            "searched_to": "" if self.is_over or not self.read_to else time_text(self.read_to),
        }

    def _next(self) -> str:
        if self._has_more and self._last:
            return f"{self._begin}.{encode_cursor(place_of(self._last))}"
        if self.is_over or self.read_to is None:
            return ""
        return f"{encode_cursor(self.read_to)}."

    def _is_behind(self, stored: StoredTask) -> bool:
        if self._after is None:
            return True
        place, after = (stored.time, stored.task), (self._after.time, self._after.task)
        return place > after if self.query.oldest_first else place < after


def _row_of(stored: StoredTask) -> TaskRow:
    fields = stored.fields
    status = json_text.decode(fields.get("status") or "{}")
    return TaskRow(
        id=stored.task,
        agent=fields["agent"],
        owner=fields["owner"],
        context=fields["context"],
        state=fields["state"],
        time=status.get("timestamp", ""),
        title=_line(_first_message(stored)),
        text=_line(status.get("message")),
        question=status if fields["state"] in INTERRUPTED else None,
    )


def _first_message(stored: StoredTask) -> Json:
    first = stored.history[0] if stored.history else None
    is_message = first is not None and first[1] == IN and isinstance(first[2], dict)
    return first[2] if first is not None and is_message else {}


def _contains(stored: StoredTask, text: str) -> bool:
    status = json_text.decode(stored.fields.get("status") or "{}")
    texts = [_text(_first_message(stored)), _text(status.get("message"))]
    if len(text) >= _SHORTEST_ID:
        texts.append(stored.task)
    return any(text in one.casefold() for one in texts)


def _text(message: Json | None) -> str:
    parts = (message or {}).get("parts") or []
    return " ".join(str(part["text"]) for part in parts if part.get("text"))


def _line(message: Json | None) -> str:
    return " ".join(_text(message)[: 4 * _LONGEST].split())[:_LONGEST]
