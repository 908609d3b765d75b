"""Lists of threads: those of an owner, the one that was changed last first."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import batched
from typing import NamedTuple

from headrace.model import json_text
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import ListedThread, ListThreads
from headrace.model.moments import moment_of
from headrace.model.subjects import stream_of_shard
from headrace.model.task import INTERRUPTED
from headrace.thread_marks import ThreadMark, ThreadMarks
from headrace_task_state.queries.frontier import Frontier, ViewBehind
from headrace_task_state.store import Range, Reader, ThreadOrder, name_of
from headrace_task_state.thread_rows import StoredThread

_READ_AT_ONCE = 500
"""Threads per command to the store, which answers nobody else meanwhile."""

_COMPLETION = 2.5
"""Seconds to wait until the owner's tasks are read from their logs, after the store was lost."""

_PAUSE = 0.05
_URGENT = 100
"""Tasks whose completion is moved to the front."""


class _PlaceInList(NamedTuple):
    """Where a thread stands in a list; higher ones come first."""

    changed: int
    context: str


class ThreadLists:
    """Answers ``threads``."""

    def __init__(self, marks: ThreadMarks, reader: Reader, frontier: Frontier) -> None:
        """Read the view once it has caught up, and what owners have set from `marks`."""
        self._marks, self._reader, self._frontier = marks, reader, frontier

    async def find(self, query: ListThreads) -> Json:
        """Return a `ThreadsFound` as JSON.

        Raises:
            InvalidName: the page token is invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        after = _decoded(query.page_token)
        order, marks = await asyncio.gather(
            self._complete_order(query), self._marks.of(query.tenant, query.owner)
        )
        places = [_PlaceInList(changed, context) for context, changed in order.contexts]
        places = [one for one in places if _may_match(query, one, marks.get(one.context))]
        if query.agents is None and not query.words:
            return await self._page(query, marks, places, after)
        return await self._found(query, marks, places, after)

    async def _page(
        self,
        query: ListThreads,
        marks: Mapping[str, ThreadMark],
        places: list[_PlaceInList],
        after: _PlaceInList | None,
    ) -> Json:
        """Return a page of all of `places`, of which only that page is read."""
        some, more = _next(places, after, query.page_size)
        threads = await self._read(query, [place.context for place in some])
        return _answer([_shown(one, marks) for one in threads], len(places), more)

    async def _found(
        self,
        query: ListThreads,
        marks: Mapping[str, ThreadMark],
        places: list[_PlaceInList],
        after: _PlaceInList | None,
    ) -> Json:
        """Return a page of those threads at `places` that match."""
        found = dict[str, StoredThread]()
        # The oldest first: a thread that is changed meanwhile is read later, or again.
        for some in batched(places, _READ_AT_ONCE):
            for one in await self._read(query, [place.context for place in some]):
                found[one.context] = one
        matching = [(one, _shown(one, marks)) for one in found.values()]
        matching = [one for one in matching if _matches(query, one[1])]
        by_place = {_PlaceInList(one.last.changed, one.context): thread for one, thread in matching}
        shown, more = _next(by_place, after, query.page_size)
        return _answer([by_place[place] for place in shown], len(matching), more)

    async def _read(self, query: ListThreads, contexts: list[str]) -> list[StoredThread]:
        if not contexts:
            return []
        return await self._reader.threads(query.tenant, query.owner, contexts)

    async def _complete_order(self, query: ListThreads) -> ThreadOrder:
        """Return the owner's threads once all tasks of the owner are more than summaries."""
        heads = await self._frontier.reached()
        loop = asyncio.get_running_loop()
        deadline, urgent = loop.time() + _COMPLETION, set[str]()
        while True:
            order = await self._reader.thread_order(query.tenant, query.owner, heads)
            if not order.summaries:
                return order
            if loop.time() > deadline:
                raise ViewBehind("threads are being read from their logs; try again")
            for key in order.summaries[:_URGENT]:
                if (name := name_of(key)) not in urgent:
                    urgent.add(name)
                    await self._reader.advance_completion(Range(stream_of_shard(key.shard)), name)
            await asyncio.sleep(_PAUSE)


def _next(
    places: Iterable[_PlaceInList], after: _PlaceInList | None, most: int
) -> tuple[list[_PlaceInList], _PlaceInList | None]:
    """Return up to `most` places after one, and the last of them if others follow."""
    rest = sorted((one for one in places if after is None or one < after), reverse=True)
    some = rest[:most]
    return some, some[-1] if len(rest) > len(some) else None


def _may_match(query: ListThreads, place: _PlaceInList, mark: ThreadMark | None) -> bool:
    is_archived = mark is not None and mark.archived
    return query.context in {None, place.context} and query.archived in {None, is_archived}


def _matches(query: ListThreads, thread: ListedThread) -> bool:
    if query.agents is not None and not set(query.agents) & set(thread.agents):
        return False
    words = query.words.casefold()
    return words in thread.title.casefold() or words in thread.text.casefold()


def _shown(thread: StoredThread, marks: Mapping[str, ThreadMark]) -> ListedThread:
    mark = marks.get(thread.context) or ThreadMark(context=thread.context)
    return ListedThread(
        id=thread.context,
        agents=list(thread.agents),
        title=thread.first.title if mark.title is None else mark.title,
        text=thread.last.text,
        state=thread.state,
        waiting=thread.state in INTERRUPTED,
        created=_time(thread.first.created),
        changed=_time(thread.last.changed),
        unread=thread.answered > mark.read,
        archived=mark.archived,
        tasks=thread.tasks,
    )


def _answer(threads: Iterable[ListedThread], total: int, more: _PlaceInList | None) -> Json:
    return {
        "threads": [one.model_dump() for one in threads],
        "next_page_token": "" if more is None else _encoded(more),
        "total_size": total,
    }


def _time(microseconds: int) -> str:
    return f"{moment_of(microseconds):%Y-%m-%dT%H:%M:%S.%f}Z"


def _encoded(place: _PlaceInList) -> str:
    return urlsafe_b64encode(json_text.encode(list(place))).decode().rstrip("=")


def _decoded(token: str) -> _PlaceInList | None:
    if not token:
        return None
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        changed, context = json_text.decode(urlsafe_b64decode(padded))
        if type(changed) is int and type(context) is str:
            return _PlaceInList(changed, context)
    except (ValueError, TypeError):
        pass
    raise InvalidName("pageToken", token, "must be a page token from a previous response")
