"""Reading from the view, each answer as of one moment."""

from collections.abc import Iterable

import orjson

from headrace.model.fold import Item
from headrace.model.messages import ListTasks
from headrace_task_state.ranges import Range
from headrace_task_state.store import (
    After,
    DueList,
    Heads,
    ProjectionBehind,
    StoredPage,
    StoredTask,
)
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys


class RedisReader:
    """Reads the view in use. Every call raises StateUnavailable without Redis."""

    def __init__(self, redis: Connection, keys: Keys) -> None:
        """Read the view of one fleet."""
        self._redis, self._keys = redis, keys

    async def task(self, tenant: str, task: str) -> StoredTask | None:
        """Return a task; None: it is not in the view."""
        pairs, history, artifacts = await self._redis.run(
            "task", [self._keys.era], [self._keys.root, f"{tenant}:{task}"]
        )
        return _stored_task(task.encode(), b"", pairs, history, artifacts) if pairs else None

    async def page(self, query: ListTasks, least: str, after: After, heads: Heads) -> StoredPage:
        """Return one page; `least` is the least time of a status (us since 1970, or ``-inf``).

        Raises:
            ProjectionBehind: the view has not reached `heads` (any more).
        """
        positions, total, more, *tasks = await self._redis.run(
            "page",
            [self._keys.era, *self._progress(heads)],
            [
                *(
                    self._keys.root,
                    query.tenant,
                    "" if query.any_owner else query.owner,
                    query.agent or "",
                ),
                *(query.status or "", "" if query.context is None else "1", query.context or ""),
                *(least, after.time, after.task, query.page_size),
                "1" if query.include_artifacts else "",
            ],
        )
        _check_reached(heads, positions)
        return StoredPage([_stored_task(*task) for task in tasks], total, more == b"1")

    async def hasten(self, place: Range, name: str) -> None:
        """Have the summary of `name` completed before all others."""
        [era] = await self._redis.ask(["GET", self._keys.era])
        key = f"{self._keys.view(int(era or 0))}{DueList.SUMMARIES}:{place.name}"
        await self._redis.ask(["ZADD", key, "XX", "-inf", name])

    async def positions(self, ranges: Iterable[Range]) -> list[int]:
        """Return up to where each range has been applied."""
        queries = [["HGET", self._keys.progress(place), "position"] for place in ranges]
        return [int(position or 0) for position in await self._redis.ask(*queries)]

    async def are_followed(self, ranges: Iterable[Range]) -> bool:
        """Tell whether every range is being applied by somebody."""
        queries = [
            query
            for place in ranges
            for query in (
                ["EXISTS", self._keys.lease(place)],
                ["HEXISTS", self._keys.progress(place), "origin"],
            )
        ]
        return all(await self._redis.ask(*queries))

    def _progress(self, heads: Heads) -> list[str]:
        return [self._keys.progress(place) for place in heads]


def _check_reached(heads: Heads, positions: Iterable[bytes | None]) -> None:
    if any(int(at or 0) < head for at, head in zip(positions, heads.values(), strict=True)):
        raise ProjectionBehind("the view is being rebuilt; try again")


def _stored_task(
    task: bytes, time: bytes, pairs: list[bytes], history: list[bytes], artifacts: list[bytes]
) -> StoredTask:
    words = [word.decode() for word in pairs]
    fields = dict(zip(words[::2], words[1::2], strict=True))
    return StoredTask(task.decode(), time.decode(), fields, _items(history), _items(artifacts))


def _items(encoded: Iterable[bytes]) -> list[Item]:
    items: list[Item] = orjson.loads(b"[%b]" % b",".join(encoded))
    return items
