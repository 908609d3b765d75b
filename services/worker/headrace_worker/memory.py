"""What the fleet remembers for the agent of an attempt."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

from headrace.jetstream.agent_memory import (
    AgentMemory,
    Chunks,
    chunk_of,
    cut,
    fence_of,
    inline,
    key_of,
    new_chunks,
)
from headrace.jetstream.errors import Refused
from headrace.jetstream.fenced_writes import FencedWrites
from headrace.jetstream.headers import KV_OPERATION
from headrace.model.errors import Fenced
from headrace.model.events import MEMORY, Json
from headrace.model.memory import (
    MemoryFull,
    MemoryScope,
    MemoryValue,
    changed_meanwhile,
    check_size,
)
from headrace.sdk.errors import Misused, RunOver
from headrace_worker.spans import AttemptSpan

_DELETION = {KV_OPERATION: "DEL"}


@contextmanager
def _unless_full(what: str) -> Iterator[None]:
    """Explain that `what` holds because the fleet's memory is full.

    Raises:
        MemoryFull: It is.
    """
    try:
        yield
    except Refused as refused:
        if refused.is_full:
            raise MemoryFull(
                f"{what}: the fleet's memory is full; delete large values, or raise"
                " HEADRACE_MEMORY_MAX_BYTES"
            ) from refused
        raise


class MemoryTaken(RunOver):
    """Another attempt writes the task's memory. If this one has the run, the next one will."""

    code = "memory_taken"
    retryable = True


class AttemptMemory:
    """The `RunMemory` of one attempt.

    Only the attempt that holds the run writes its task's memory, as with the log: all writes expect
    that the last one was its own. Other scopes are shared by the runs of many tasks.
    """

    def __init__(
        self,
        store: AgentMemory,
        scope: MemoryScope,
        writer: str,
        check: Callable[[], None],
        *,
        is_first: bool,
        owner_seconds: int | None,
    ) -> None:
        """Use `store` for an attempt at a run of the task of `scope`.

        Args:
            store: The fleet's store.
            scope: The task's scope.
            writer: The attempt's name as a writer.
            check: Raises `RunOver` once the attempt may write nothing.
            is_first: Whether no other attempt can have written the task's memory.
            owner_seconds: Seconds for which a value in an owner's memory is kept; None: forever.
        """
        self.scope = scope
        self._store, self._check, self._owner_seconds = store, check, owner_seconds
        self._writes = FencedWrites(store.bus, store.stream, store.pattern_of(scope), writer)
        self._is_claimed = is_first
        self._unshown = Counter[str]()
        self.span: AttemptSpan | None = None
        """The attempt's. None: there are no traces."""
        self._turn = asyncio.Lock()
        self._chunks = dict[str, Chunks]()
        """Of the task's values that this attempt has written, those of large ones."""

    @contextmanager
    def writing(self, scope: MemoryScope) -> Iterator[None]:
        """Show that the agent writes in `scope`: in a span, and in the log's next status."""
        kind = scope.kind
        with nullcontext() if self.span is None else self.span.memory_write(kind):
            yield
        self._unshown[kind] += 1

    def take_unshown(self) -> Json:
        """Return the metadata that shows the writes since the last call; empty: there are none."""
        if not self._unshown:
            return {}
        shown, self._unshown = dict(self._unshown), Counter()
        return {MEMORY: shown}

    async def get(self, scope: MemoryScope, key: str) -> MemoryValue | None:
        """Return the value of `key`."""
        await self._begin(scope)
        return await self._store.get(scope, key)

    async def keys(self, scope: MemoryScope, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        await self._begin(scope)
        return await self._store.keys(scope, prefix)

    async def read(
        self, scope: MemoryScope, prefix: str, newest: int | None = None
    ) -> dict[str, MemoryValue]:
        """Return the values of the keys that begin with `prefix`; see `RunMemory.read`."""
        await self._begin(scope)
        return await self._store.read(scope, prefix, newest)

    async def last(self, scope: MemoryScope, prefix: str) -> tuple[str, MemoryValue] | None:
        """Return the key that begins with `prefix` and was written last, and its value."""
        await self._begin(scope)
        return await self._store.last(scope, prefix)

    async def put(self, scope: MemoryScope, key: str, data: bytes, revision: int | None) -> int:
        """Write the value of `key`.

        Raises:
            MemoryChanged, MemoryFull: As `RunMemory.put`.
            RunOver: Another worker has the run.
        """
        await self._begin(scope)
        self._check_writable(scope)
        check_size(key, data)
        with _unless_full(f"memory key {key!r} is not stored"):
            if scope == self.scope:
                return await self._put_own(key, data, revision)
            seconds = self._owner_seconds if scope.context is None else None
            return await self._store.put(scope, key, data, revision, seconds=seconds)

    async def delete(self, scope: MemoryScope, key: str, revision: int | None) -> None:
        """Delete `key`.

        Raises:
            MemoryChanged, MemoryFull: As `RunMemory.delete`.
            RunOver: Another worker has the run.
        """
        await self._begin(scope)
        self._check_writable(scope)
        with _unless_full(f"memory key {key!r} is not deleted"):
            if scope == self.scope:
                await self._delete_own(key, revision)
            else:
                await self._store.delete(scope, key, revision)

    async def _begin(self, scope: MemoryScope) -> None:
        """Make sure, before the task's memory is used, that no earlier attempt can change it.

        Raises:
            Misused: The scope is another agent's, owner's or tenant's.
            MemoryFull: The fleet's memory is full.
        """
        if scope[:3] != self.scope[:3]:
            raise Misused(f"agent {self.scope.agent!r} used the memory of {scope[:3]}")
        if scope != self.scope or self._is_claimed:
            return
        async with self._turn:
            if not self._is_claimed:
                self._check()
                with _unless_full("the task's memory has not been taken over"):
                    await self._writes.claim(self._subject(fence_of(scope)))
                self._is_claimed = True

    def _check_writable(self, scope: MemoryScope) -> None:
        if scope.task is not None and scope != self.scope:
            raise Misused(f"agent {scope.agent!r} wrote the memory of another task, {scope.task}")
        self._check()

    async def _put_own(self, key: str, data: bytes, revision: int | None) -> int:
        async with self._turn:
            if revision is not None:
                await self._expected(key, revision)
            pieces, stored = cut(data), 0
            chunks = new_chunks(pieces)
            message = chunks.encode() if pieces else inline(data)
            try:
                for piece in pieces:
                    await self._append(chunk_of(self.scope, chunks, stored), piece)
                    stored += 1
                revision = await self._append(key_of(self.scope, key), message)
            except Refused:
                await self._drop(replace(chunks, count=stored))
                raise
            await self._drop(self._chunks.pop(key, None))
            if pieces:
                self._chunks[key] = chunks
            return revision

    async def _delete_own(self, key: str, revision: int | None) -> None:
        async with self._turn:
            if await self._expected(key, revision) is not None:
                await self._append(key_of(self.scope, key), b"", _DELETION)
                await self._drop(self._chunks.pop(key, None))

    async def _expected(self, key: str, revision: int | None) -> MemoryValue | None:
        """Return the value of a key of the task, which has the `revision` (None: any).

        Raises:
            MemoryChanged: It has another one.
        """
        found = await self._store.get(self.scope, key)
        if revision is not None and revision != (found.revision if found else 0):
            raise changed_meanwhile(key)
        return found

    async def _drop(self, chunks: Chunks | None) -> None:
        """Drop the chunks of a value that was replaced. The task's end drops the others."""
        if chunks is None:
            return
        for number in range(chunks.count):
            # A full store refuses a mark that is larger than the chunk.
            with suppress(Refused):
                await self._append(chunk_of(self.scope, chunks, number), b"", _DELETION)

    async def _append(self, place: str, data: bytes, headers: dict[str, str] | None = None) -> int:
        """Store a message of the task's memory.

        Raises:
            RunOver: Another worker has the run.
        """
        self._check()
        try:
            return await self._writes.store(self._subject(place), data, headers or {})
        except Fenced as fenced:
            raise MemoryTaken(f"another worker has the run: {fenced}") from fenced

    def _subject(self, place: str) -> str:
        return self._store.bucket.prefix + place
