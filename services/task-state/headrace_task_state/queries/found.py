"""A task as it was found in the view."""

from collections.abc import Iterable

import orjson

from headrace.log.logged_task import LoggedTask
from headrace.model.events import Json
from headrace.model.fold import Change, Item, Standing, TaskFold
from headrace_task_state.store_redis.reading import Fields, StoredTask


def read_found(stored: StoredTask) -> LoggedTask:
    """Return the task that a view's hash and lists hold (``store_redis/lua/listings.lua``)."""
    fields = stored.fields
    standing = _standing(stored.task, fields)
    return LoggedTask(
        TaskFold.restored(standing, _items(stored.history), _items(stored.artifacts)),
        owner=fields[b"owner"].decode(),
        agent=fields[b"agent"].decode(),
        log=fields[b"log"].decode(),
        sequence=int(fields[b"sequence"]),
        traceparent=fields[b"traceparent"].decode() if fields.get(b"traceparent") else None,
    )


def _standing(task: str, fields: Fields) -> Standing:
    standing = Standing(
        task,
        fields[b"context"].decode(),
        status=_json(fields, b"status"),
        status_generation=int(fields.get(b"status_generation", 0)),
    )
    if b"answer" in fields:
        generation = int(fields[b"answer_generation"])
        standing.take(Change(generation, answer=_json(fields, b"answer")))
    standing.generation = int(fields[b"generation"])
    return standing


def _json(fields: Fields, name: bytes) -> Json:
    value: Json = orjson.loads(fields.get(name, b"{}"))
    return value


def _items(encoded: Iterable[bytes]) -> list[Item]:
    items: list[Item] = orjson.loads(b"[%b]" % b",".join(encoded))
    return items
