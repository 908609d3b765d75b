"""What owners have set of their threads: titles, what is archived, and up to where they have read.

No log contains it, so it is kept in a bucket of its own, which outlives task state's store.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged

KEPT_SECONDS = 400 * 24 * 3600
"""Seconds for which a mark is kept after its last change."""

DELETED_SECONDS = 30 * 24 * 3600
"""Seconds for which it is known that the marks of a thread were deleted."""

_OWNERS = 1000
"""Owners whose marks are remembered."""


class ThreadMark(BaseModel):
    """What an owner has set of one thread."""

    model_config = ConfigDict(frozen=True)

    context: str
    title: str | None = None
    """None: the thread's own."""
    archived: bool = False
    read: int = 0
    """Time up to which the owner has read, microseconds since 1970."""


class _KnownMarks(NamedTuple):
    sequence: int
    """Sequence in the bucket's stream up to which the marks are known."""
    by_key: Mapping[str, ThreadMark]


class ThreadMarks:
    """The marks of threads. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        """Use the bucket on `bus`."""
        self._bucket = Bucket(bus, bus.streams.threads)
        self._known = OrderedDict[str, _KnownMarks]()

    async def change(
        self,
        tenant: str,
        owner: str,
        context: str,
        change: Callable[[ThreadMark], ThreadMark],
    ) -> None:
        """Replace the mark of an owner's thread by what `change` returns."""
        key = _key(tenant, owner, context)
        while True:
            found = await self._bucket.get(key)
            before = ThreadMark(context=context) if found.data is None else _read(found.data)
            try:
                data = change(before).model_dump_json(exclude_defaults=True).encode()
                await self._bucket.put(key, data, found.sequence, seconds=KEPT_SECONDS)
            except KeyChanged:
                continue
            return

    async def delete(self, tenant: str, owner: str, context: str) -> None:
        """Delete the mark of an owner's thread. Nothing happens if it has none."""
        await self._bucket.delete(_key(tenant, owner, context), seconds=DELETED_SECONDS)

    async def of(self, tenant: str, owner: str) -> Mapping[str, ThreadMark]:
        """Return an owner's marks by context, as of now."""
        pattern = f"{tenant}.{owner}.*"
        last = await self._bucket.last(pattern)
        known = self._known.get(pattern, _KnownMarks(0, {}))
        if last is not None and last[1].sequence > known.sequence:
            known = await self._read_on(pattern, known, last[1].sequence)
        self._known[pattern] = known
        self._known.move_to_end(pattern)
        if len(self._known) > _OWNERS:
            self._known.popitem(last=False)
        return {mark.context: mark for mark in known.by_key.values()}

    async def _read_on(self, pattern: str, known: _KnownMarks, head: int) -> _KnownMarks:
        """Return the marks as the leader has them at sequence `head`, or later."""
        marks = dict(known.by_key)
        found = await self._bucket.entries(pattern, after=known.sequence, is_latest=True)
        for key, value in found.items():
            if value is None:
                marks.pop(key, None)
            else:
                marks[key] = _read(value.data)
        return _KnownMarks(head, marks)


def _key(tenant: str, owner: str, context: str) -> str:
    return f"{tenant}.{owner}.{hashlib.sha256(context.encode()).hexdigest()[:32]}"


def _read(data: bytes) -> ThreadMark:
    return ThreadMark.model_validate_json(data)
