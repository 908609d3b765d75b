"""The store of what agents remember: a bucket whose keys are grouped by scope.

The subject of a value is ``$KV.MEMORY.<tenant>.<agent>.<task>.<owner>.<context>.k.<key>``, with
``_`` for a scope without task or context. A message has the value in it, or names the chunks that
have it, which are stored first and never changed. So a value is replaced by one message.
"""

import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from typing import NamedTuple

import orjson

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.kv import Bucket, KeyChanged, stream_of
from headrace.jetstream.purge import erase, purge
from headrace.model.errors import BusUnavailable
from headrace.model.memory import (
    EMPTY,
    MemoryScope,
    MemoryValue,
    changed_meanwhile,
    check_prefix,
    check_size,
    decode_key,
    encode_key,
    latest,
)
from headrace.model.subjects import MAX_TOKEN, decode_token, encode_token, stream_of_shard
from headrace.model.task import TaskKey, is_task_id

INLINE = 256 * 1024
"""Largest value in bytes that is stored in one message, and size of a chunk."""

DELETED = 30 * 24 * 3600
"""Seconds for which the mark of a deleted key stays."""

_NONE = "_"
_HASHED = "_h"
"""Begins the token of a long context. No encoded name begins so."""
_IS_HASHED = re.compile(f"{_HASHED}[0-9a-f]{{64}}")
_HERE, _CHUNKED = b"\x00", b"\x01"
"""First byte of a message: the value follows, or the description of its chunks."""
_TRIES = 20
"""Times that a value is read whose chunks others replace meanwhile."""
_LONGER = 60
"""Seconds for which chunks outlive what names them."""
_SCOPE_TOKENS = 6
"""Tokens before the key in the subject of a value."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where the chunks of a value are."""

    name: str
    count: int
    size: int
    """Bytes of the value."""

    def encode(self) -> bytes:
        """Return the message that names them."""
        return _CHUNKED + orjson.dumps(
            {"name": self.name, "chunks": self.count, "bytes": self.size}
        )


class HashedContext(str):
    """What subjects have in place of a context's id that is too long for them."""

    __slots__ = ()

    @classmethod
    def of(cls, token: str) -> "HashedContext | None":
        """Return the hash that is a subject's `token`; None: it is an id."""
        return cls(token) if _IS_HASHED.fullmatch(token) else None


class MemoryFilter(NamedTuple):
    """Which values are meant. None: any."""

    tenant: str
    """As a subject token, like the following two."""
    agent: str
    owner: str | None = None
    context: str | None = None
    task: str | None = None

    @property
    def pattern(self) -> str:
        """What matches the keys in the bucket."""
        return f"{self._scopes}.k.>"

    @property
    def chunks(self) -> str:
        """What matches the chunks of large values."""
        return f"{self._scopes}.c.>"

    @property
    def _scopes(self) -> str:
        context = "*" if self.context is None else _context_token(self.context)
        return f"{self.tenant}.{self.agent}.{self.task or '*'}.{self.owner or '*'}.{context}"


class MemoryKey(NamedTuple):
    """A key that has a value."""

    scope: MemoryScope
    key: str
    size: int
    """Bytes of the value."""
    revision: int


class ConversationMemory(NamedTuple):
    """A conversation that has memory. All fields are subject tokens."""

    tenant: str
    agent: str
    owner: str
    token: str
    """The context's."""

    @property
    def context(self) -> str | None:
        """The context's id. None: it is too long to be in a subject."""
        return None if HashedContext.of(self.token) else decode_token(self.token)

    def has(self, context: str) -> bool:
        """Return whether it is the conversation of a context's id."""
        return _context_token(context) == self.token

    @property
    def pattern(self) -> str:
        """What matches its keys in the bucket."""
        return f"{self.tenant}.{self.agent}.{_NONE}.{self.owner}.{self.token}.>"


def chunks_of(message: bytes) -> Chunks | None:
    """Return the chunks that a stored message names; None: it has the value itself."""
    if not message.startswith(_CHUNKED):
        return None
    held = orjson.loads(message[1:])
    return Chunks(held["name"], held["chunks"], held["bytes"])


def cut(data: bytes) -> list[bytes]:
    """Return the chunks of a value; none if it fits into one message."""
    if len(data) <= INLINE:
        return []
    return [data[at : at + INLINE] for at in range(0, len(data), INLINE)]


def inline(data: bytes) -> bytes:
    """Return the message that has the value itself."""
    return _HERE + data


def new_chunks(pieces: Sequence[bytes]) -> Chunks:
    """Return a new place for the chunks of a value."""
    return Chunks(secrets.token_hex(8), len(pieces), sum(map(len, pieces)))


def place_of(scope: MemoryScope) -> str:
    """Return the beginning of the keys of a scope in the bucket."""
    context = _NONE if scope.context is None else _context_token(scope.context)
    return ".".join((scope.tenant, scope.agent, scope.task or _NONE, scope.owner, context))


def key_of(scope: MemoryScope, key: str) -> str:
    """Return where the message of `key` is in the bucket."""
    return _keys_of(scope) + encode_key(key)


def _keys_of(scope: MemoryScope) -> str:
    return f"{place_of(scope)}.k."


def _pattern(prefix: str) -> str:
    # The last segment of a prefix is empty.
    return f"{encode_key(prefix).removesuffix(EMPTY)}>" if check_prefix(prefix) else ">"


def chunk_of(scope: MemoryScope, chunks: Chunks, number: int) -> str:
    """Return where a chunk is in the bucket."""
    return f"{place_of(scope)}.c.{chunks.name}.{number:05d}"


def fence_of(scope: MemoryScope) -> str:
    """Return where a new writer of the scope announces itself."""
    return f"{place_of(scope)}.f"


def _context_token(context: str) -> str:
    if isinstance(context, HashedContext):
        return context
    encoded = "".join(encode_token(one) for one in context)
    if 0 < len(encoded) <= MAX_TOKEN:
        return encoded
    return _HASHED + hashlib.sha256(context.encode("utf-8", "replace")).hexdigest()


class AgentMemory:
    """The fleet's store.

    Methods raise `InvalidName` for an invalid key, and `BusUnavailable` if the store does not
    answer.
    """

    def __init__(self, bus: Bus) -> None:
        """Store on `bus`."""
        self.bus, self.bucket = bus, Bucket(bus, bus.streams.memory)
        self.stream = stream_of(bus.streams.memory)

    def pattern_of(self, scope: MemoryScope) -> str:
        """Return the subjects of all messages of a scope."""
        return f"{self.bucket.prefix}{place_of(scope)}.>"

    async def get(self, scope: MemoryScope, key: str) -> MemoryValue | None:
        """Return the value of `key`, from the leader."""
        place = key_of(scope, key)
        for _ in range(_TRIES):
            found = await self.bucket.get(place)
            if found.data is None:
                return None
            data = await self._content(scope, found.data)
            if data is not None:
                return MemoryValue(data, found.sequence)
        raise BusUnavailable(f"memory key {key!r} is changed all the time; try again")

    async def put(
        self,
        scope: MemoryScope,
        key: str,
        data: bytes,
        revision: int | None,
        *,
        seconds: int | None = None,
    ) -> int:
        """Write the value of `key`, if it has the `revision` (None: any), and return the new one.

        It expires after `seconds`; None: never.

        Raises:
            MemoryChanged: The key has another revision.
            MemoryFull: The value is too large.
        """
        check_size(key, data)
        place, pieces = key_of(scope, key), cut(data)
        chunks = new_chunks(pieces)
        longer = None if seconds is None else seconds + _LONGER
        message, stored = chunks.encode() if pieces else inline(data), 0
        try:
            for piece in pieces:
                await self.bucket.put(chunk_of(scope, chunks, stored), piece, 0, seconds=longer)
                stored += 1
            return await self._replace(scope, key, place, message, revision, seconds)
        except KeyChanged:
            await self._drop(scope, chunks)
            raise changed_meanwhile(key) from None
        except Refused:
            # No message names the chunks, so nothing else would drop them.
            await self._drop(scope, replace(chunks, count=stored))
            raise

    async def delete(self, scope: MemoryScope, key: str, revision: int | None) -> None:
        """Delete `key`, if it has the `revision` (None: any).

        Raises:
            MemoryChanged: The key has another revision.
        """
        place = key_of(scope, key)
        while (found := await self.bucket.get(place)).data is not None:
            if revision not in {None, found.sequence}:
                raise changed_meanwhile(key)
            if await self.bucket.delete_revision(place, found.sequence, seconds=DELETED):
                return await self._drop(scope, chunks_of(found.data))
        if revision:
            raise changed_meanwhile(key)
        return None

    async def keys(self, scope: MemoryScope, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        return sorted(await self._messages(scope, prefix))

    async def read(
        self, scope: MemoryScope, prefix: str, newest: int | None = None
    ) -> dict[str, MemoryValue]:
        """Return the values of the keys that begin with `prefix`; see `RunMemory.read`."""
        found = dict[str, MemoryValue]()
        stored: Iterable[tuple[str, tuple[bytes, int]]]
        stored = (await self._messages(scope, prefix)).items()
        if newest is not None:
            stored = nlargest(newest, stored, key=lambda one: one[1][1])
        for key, (message, revision) in stored:
            if chunks_of(message) is None:
                found[key] = MemoryValue(message[1:], revision)
            elif (value := await self.get(scope, key)) is not None:
                found[key] = value
        return found

    async def last(self, scope: MemoryScope, prefix: str) -> tuple[str, MemoryValue] | None:
        """Return the key that begins with `prefix` and was written last, and its value."""
        found = await self.bucket.last(f"{_keys_of(scope)}{_pattern(prefix)}")
        if found is None:
            return None
        place, value = found
        content = None if value.data is None else await self._content(scope, value.data)
        if content is None:
            # The last message is a deletion, and tells nothing of the keys that are left.
            return latest(await self.read(scope, prefix))
        return decode_key(place.removeprefix(_keys_of(scope))), MemoryValue(content, value.sequence)

    async def erase(self, key: TaskKey, *, is_deleted: bool) -> None:
        """Erase the memory of a task; if it `is_deleted`, overwrite its bytes too."""
        remove = erase if is_deleted else purge
        pattern = f"{self.bucket.prefix}{key.tenant}.{key.agent}.{key.task}.>"
        await remove(self.bus, self.stream, pattern)

    async def find(self, wanted: MemoryFilter) -> list[MemoryKey]:
        """Return the keys that `wanted` means, sorted. A long context has its hash for its name."""
        copied = await self.bucket.copy(wanted.pattern, is_latest=True)
        found = list[MemoryKey]()
        for place, value in sorted(copied.items()):
            tenant, agent, task, owner, token, _, key = place.split(".", _SCOPE_TOKENS)
            named = None if token == _NONE else HashedContext.of(token) or decode_token(token)
            context = named if wanted.context is None else wanted.context
            scope = MemoryScope(tenant, agent, owner, context, None if task == _NONE else task)
            chunks = chunks_of(value.data)
            size = len(value.data) - 1 if chunks is None else chunks.size
            found.append(MemoryKey(scope, decode_key(key), size, value.sequence))
        return found

    async def erase_key(self, scope: MemoryScope, key: str) -> None:
        """Erase a value, and overwrite its bytes."""
        place = self.bucket.prefix + key_of(scope, key)
        found = await self.bucket.get(key_of(scope, key))
        chunks = None if found.data is None else chunks_of(found.data)
        await erase(self.bus, self.stream, place)
        if chunks is not None:
            begin = f"{self.bucket.prefix}{place_of(scope)}.c.{chunks.name}.>"
            await erase(self.bus, self.stream, begin)

    async def erase_all(self, wanted: MemoryFilter) -> list[MemoryKey]:
        """Erase the values that `wanted` means, overwrite their bytes, and return their keys.

        Chunks that a killed writer has left, which no key names, are erased, too.
        """
        info = await until_answered(self.bus, partial(stream_info, self.bus, self.stream))
        found = await self.find(wanted)
        for one in found:
            await self.erase_key(one.scope, one.key)
        # Those behind it may be of a value that is being written.
        before = info["state"]["last_seq"] + 1
        await erase(self.bus, self.stream, self.bucket.prefix + wanted.chunks, before)
        return found

    async def drop(self, key: TaskKey) -> None:
        """Erase the memory of a task."""
        await self.erase(key, is_deleted=False)

    async def newest(self, key: TaskKey) -> float | None:
        """Return when the memory of a task was last written, seconds since 1970; None: never."""
        return await self._newest(f"{key.tenant}.{key.agent}.{key.task}.>")

    async def tasks(self) -> AsyncIterator[set[TaskKey]]:
        """Yield the tasks that have memory, some at a time. A task may be yielded twice."""
        async for page in self._pages("*.*.*.*.*.>"):
            keys = {TaskKey(tenant, agent, task) for tenant, agent, task, *_ in page}
            yield {key for key in keys if is_task_id(key.task) and self._has_stream(key)}

    async def conversations(self) -> AsyncIterator[set[ConversationMemory]]:
        """Yield the conversations that have memory, likewise."""
        async for page in self._pages(f"*.*.{_NONE}.*.*.>"):
            yield {
                ConversationMemory(tenant, agent, owner, token)
                for tenant, agent, _, owner, token, *_ in page
                if token != _NONE
            }

    async def last_write(self, conversation: ConversationMemory) -> float | None:
        """Return when a conversation's memory was last written, seconds since 1970."""
        return await self._newest(conversation.pattern)

    async def erase_conversation(self, conversation: ConversationMemory) -> None:
        """Erase the memory of a conversation, and overwrite its bytes."""
        await erase(self.bus, self.stream, self.bucket.prefix + conversation.pattern)

    async def _newest(self, pattern: str) -> float | None:
        found = await self.bucket.last(pattern)
        written = None if found is None else found[1].written
        return None if written is None else written.timestamp()

    async def _pages(self, pattern: str) -> AsyncIterator[list[list[str]]]:
        """Yield the tokens of the keys that match, as many at a time as NATS lists."""
        passed, total = 0, 1
        while passed < total:
            query = {"subjects_filter": self.bucket.prefix + pattern, "offset": passed}
            info = await until_answered(
                self.bus, partial(stream_info, self.bus, self.stream, query)
            )
            subjects = info["state"].get("subjects") or {}
            yield [one.removeprefix(self.bucket.prefix).split(".") for one in subjects]
            passed += len(subjects)
            total = info.get("total", 0) if subjects else 0

    def _has_stream(self, key: TaskKey) -> bool:
        return stream_of_shard(key.shard) < self.bus.settings.event_streams

    async def _replace(  # noqa: PLR0917 - what is stored, and where
        self,
        scope: MemoryScope,
        key: str,
        place: str,
        message: bytes,
        revision: int | None,
        seconds: int | None,
    ) -> int:
        """Store the message of a key, and drop the chunks that the one before had.

        Raises:
            KeyChanged: The key has another revision.
        """
        while True:
            before = await self.bucket.get(place)
            there = 0 if before.data is None else before.sequence
            if revision not in {None, there}:
                raise KeyChanged(key)
            try:
                stored = await self.bucket.put(place, message, before.sequence, seconds=seconds)
            except KeyChanged:
                if revision is not None:
                    raise
                continue
            await self._drop(scope, None if before.data is None else chunks_of(before.data))
            return stored

    async def _drop(self, scope: MemoryScope, chunks: Chunks | None) -> None:
        if chunks is None:
            return
        for number in range(chunks.count):
            # A full store refuses a mark that is larger than the chunk.
            with suppress(Refused):
                await self.bucket.delete(chunk_of(scope, chunks, number), seconds=DELETED)

    async def _messages(self, scope: MemoryScope, prefix: str) -> dict[str, tuple[bytes, int]]:
        copied = await self.bucket.copy(f"{_keys_of(scope)}{_pattern(prefix)}", is_latest=True)
        return {
            decode_key(place.removeprefix(_keys_of(scope))): (one.data, one.sequence)
            for place, one in copied.items()
        }

    async def _content(self, scope: MemoryScope, message: bytes) -> bytes | None:
        """Return the value of a stored message; None: its chunks have been dropped meanwhile."""
        chunks = chunks_of(message)
        if chunks is None:
            return message[1:]
        pieces = list[bytes]()
        for number in range(chunks.count):
            piece = (await self.bucket.get(chunk_of(scope, chunks, number))).data
            if piece is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)
