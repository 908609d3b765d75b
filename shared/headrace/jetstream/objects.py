"""The store of files that are too large for a log: an object store, with links in the log.

It uses JetStream's object store format (NATS ADR-20) with one difference: the subjects of chunks
and descriptions begin with the task. So all files of a task can be dropped at once, and NATS can
keep one agent's workers from writing another one's files. An object is written once, under its own
name, and never changed.

A link replaces the URL of a Part: ``headrace-file:<agent>/tasks/<task>/files/<name>``. Gateways
convert links to URLs for clients (`headrace.links`); agents read the linked files.
"""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import is_

from nats.aio.msg import Msg

from headrace.jetstream.api import get_message, store_after, stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import SEQUENCE, nanoseconds
from headrace.jetstream.purge import erase, purge
from headrace.model import json_text
from headrace.model.errors import BusUnavailable, FileUnknown, LogFull
from headrace.model.events import Json, now
from headrace.model.file_links import LINK, SCHEME
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey, is_task_id

CHUNK = 128 * 1024
"""Size of a chunk in bytes, the object store's default."""

_SOON = 5.0
_BATCH = 8
_TRIES = 10
_NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class FileOwner:
    """The owner of a file. Agents can read only files of their own caller and conversation."""

    owner: str
    """As a subject token."""
    context: str


type Remove = Callable[[Bus, str, str], Awaitable[None]]
"""Removes the messages on a subject from a stream."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The description of a stored file."""

    name: str
    """Name within its task."""
    size: int
    """Bytes."""
    chunks: int
    digest: str
    """SHA-256, base64url-encoded."""
    filename: str
    """Name given by its author. Empty: none."""
    media_type: str
    """Media type given by its author. Empty: none."""
    belongs_to: FileOwner


class FileStore:
    """The fleet's object store."""

    def __init__(self, bus: Bus) -> None:
        """Store files on `bus`."""
        self._bus, self._bucket = bus, bus.streams.files
        self._stream = f"OBJ_{self._bucket}"
        self._all_chunks = f"$O.{self._bucket}.C."

    async def put(
        self,
        key: TaskKey,
        belongs_to: FileOwner,
        content: bytes,
        filename: str = "",
        media_type: str = "",
    ) -> str:
        """Store a file of the task at `key` and return its link.

        Raises:
            LogFull: The store is at its limit.
            BusUnavailable: It is not stored, or not for certain. It may be stored again.
        """
        return await self._put(key, belongs_to, _cut(content), filename, media_type)

    async def copy(
        self, link: str, tenant: str, reader: FileOwner, to: TaskKey, belongs_to: FileOwner
    ) -> str:
        """Store the file at `link`, if it belongs to `reader`, for the task at `to`.

        Return the link of the copy. Only a few of its chunks are in memory at a time.

        Raises:
            FileUnknown: As `read`.
            LogFull, BusUnavailable: As `put`.
        """
        key, info = await self.find(link, tenant, reader)
        chunks = self.chunks(key, info)
        return await self._put(to, belongs_to, chunks, info.filename, info.media_type)

    async def _put(
        self,
        key: TaskKey,
        belongs_to: FileOwner,
        chunks: AsyncIterator[bytes],
        filename: str,
        media_type: str,
    ) -> str:
        name = secrets.token_hex(8)
        headers = {
            "filename": [filename],
            "media-type": [media_type],
            "owner": [belongs_to.owner],
            "context": [belongs_to.context],
        }
        try:
            await self._write(key, name, chunks, headers)
        except (LogFull, FileUnknown):
            # Otherwise partial files would keep a full store full.
            with suppress(BusUnavailable):
                await self.drop(key, name)
            raise
        return f"{SCHEME}{key.agent}/tasks/{key.task}/files/{name}"

    async def _write(
        self, key: TaskKey, name: str, chunks: AsyncIterator[bytes], headers: Json
    ) -> None:
        last = size = count = 0
        digest = hashlib.sha256()
        async for chunk in chunks:
            last = await self._publish(self._chunks(key, name), chunk, last)
            size, count = size + len(chunk), count + 1
            digest.update(chunk)
        meta = {
            "name": self._object(key, name),
            "headers": headers,
            "options": {"max_chunk_size": CHUNK},
            "bucket": self._bucket,
            "nuid": f"{key.tenant}.{key.agent}.{key.task}.{name}",
            "size": size,
            "mtime": now(),
            "chunks": count,
            "digest": f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}",
        }
        await self._publish(self._meta(key, name), json_text.encode(meta), 0)

    async def info(self, key: TaskKey, name: str) -> FileInfo:
        """Return the description of the file `name` of the task at `key`.

        Raises:
            FileUnknown: The file does not exist.
            BusUnavailable: The store does not answer.
        """
        if not _NAME.fullmatch(name):
            raise unknown_file(key, name)
        query = {"last_by_subj": self._meta(key, name)}
        message = await until_answered(
            self._bus, lambda: get_message(self._bus, self._stream, query)
        )
        if message is None:
            raise unknown_file(key, name)
        meta: Json = json_text.decode(base64.b64decode(message["data"]))
        headers = meta.get("headers", {})
        return FileInfo(
            name=name,
            size=meta["size"],
            chunks=meta["chunks"],
            digest=meta["digest"].partition("=")[2],
            filename=headers.get("filename", [""])[0],
            media_type=headers.get("media-type", [""])[0],
            belongs_to=FileOwner(headers.get("owner", [""])[0], headers.get("context", [""])[0]),
        )

    async def chunks(self, key: TaskKey, info: FileInfo) -> AsyncIterator[bytes]:
        """Yield the file's content in chunks. Only a few are in memory at a time.

        Raises:
            FileUnknown: The file was dropped meanwhile.
            BusUnavailable: The store does not answer.
        """
        left, start, tries = info.chunks, 1, 0
        while left:
            messages = await self._next_chunks(key, info.name, start, min(left, _BATCH))
            for msg in messages:
                start = int((msg.headers or {})[SEQUENCE]) + 1
                yield msg.data
            left -= len(messages)
            tries = 0 if messages else tries + 1
            if tries == 1:
                await self.info(key, info.name)
            elif tries > _TRIES:
                raise BusUnavailable(f"the file store did not return {info.name} of {key.task}")

    async def read(self, link: str, tenant: str, reader: FileOwner) -> bytes:
        """Return the content of the file at `link`, if it belongs to `reader`.

        Raises:
            FileUnknown: It is not a link, or `tenant`, owner and context have no such file.
            BusUnavailable: The store does not answer.
        """
        key, info = await self.find(link, tenant, reader)
        return b"".join([chunk async for chunk in self.chunks(key, info)])

    async def find(self, link: str, tenant: str, reader: FileOwner) -> tuple[TaskKey, FileInfo]:
        """Return the task and the description of the file at `link`, if it belongs to `reader`.

        Raises:
            FileUnknown, BusUnavailable: As `read`.
        """
        found = LINK.fullmatch(link)
        if found is None:
            raise FileUnknown(f"{link[:80]!r} is not a link to a file of this fleet")
        key = TaskKey(tenant, found[1], found[2])
        info = await self.info(key, found[3])
        if info.belongs_to != reader:
            raise unknown_file(key, info.name)
        return key, info

    async def drop(self, key: TaskKey, name: str = "*") -> None:
        """Delete all files of the task at `key`, or the one called `name`.

        Raises:
            BusUnavailable: The store does not answer. The call may be repeated.
        """
        await self._remove(key, name, purge)

    async def erase(self, key: TaskKey) -> None:
        """Delete all files of the task at `key` and overwrite their bytes.

        Raises:
            BusUnavailable: The store does not answer. The call may be repeated.
        """
        await self._remove(key, "*", erase)

    async def tasks(self) -> AsyncIterator[set[TaskKey]]:
        """Yield the tasks of which the store has files, complete or not, some at a time.

        NATS lists at most 100,000 files at once. A task may be yielded twice, or not if files are
        deleted meanwhile. What a worker has stored on subjects of no possible task is left out.

        Raises:
            BusUnavailable: The store does not answer.
        """
        passed, total = 0, 1
        while passed < total:
            query = {"subjects_filter": f"{self._all_chunks}>", "offset": passed}
            info = await self._info(query)
            subjects = info["state"].get("subjects") or {}
            yield {key for subject in subjects if (key := self._key_of(subject)) is not None}
            passed += len(subjects)
            total = info.get("total", 0) if subjects else 0

    def _key_of(self, chunks: str) -> TaskKey | None:
        tokens = chunks.removeprefix(self._all_chunks).split(".")
        if len(tokens) != len((*TaskKey._fields, "name")) or not is_task_id(tokens[2]):
            return None
        key = TaskKey(*tokens[:3])
        return key if stream_of_shard(key.shard) < self._bus.settings.event_streams else None

    async def newest(self, key: TaskKey) -> float | None:
        """Return when the newest part of a file of the task was stored, seconds since 1970.

        None: the task has no files.

        Raises:
            BusUnavailable: The store does not answer.
        """
        query = {"last_by_subj": self._chunks(key, "*")}
        message = await until_answered(
            self._bus, lambda: get_message(self._bus, self._stream, query)
        )
        return None if message is None else nanoseconds(message["time"]) / 1e9

    async def _remove(self, key: TaskKey, name: str, remove: Remove) -> None:
        found = await self._info({"subjects_filter": self._chunks(key, name)})
        for chunks in found["state"].get("subjects") or {}:
            # Chunks are removed last, because an interrupted removal finds the file by them.
            for subject in (self._meta(key, chunks.rpartition(".")[2]), chunks):
                await remove(self._bus, self._stream, subject)

    async def _info(self, query: Json) -> Json:
        return await until_answered(self._bus, lambda: stream_info(self._bus, self._stream, query))

    async def _next_chunks(self, key: TaskKey, name: str, start: int, most: int) -> list[Msg]:
        query = {"batch": most, "seq": start, "next_by_subj": self._chunks(key, name)}
        return (await direct_get(self._bus, self._stream, query, _as_it_is)).messages

    async def _publish(self, subject: str, body: bytes, after: int) -> int:
        try:
            return await store_after(self._bus, self._stream, subject, body, after)
        except Refused as refused:
            raise (LogFull(str(refused)) if refused.is_full else refused) from None

    def _chunks(self, key: TaskKey, name: str) -> str:
        return f"{self._all_chunks}{key.tenant}.{key.agent}.{key.task}.{name}"

    def _meta(self, key: TaskKey, name: str) -> str:
        return f"$O.{self._bucket}.M.{key.tenant}.{key.agent}.{key.task}.{name}"

    @staticmethod
    def _object(key: TaskKey, name: str) -> str:
        return f"{key.tenant}/{key.agent}/{key.task}/{name}"


def unknown_file(key: TaskKey, name: str) -> FileUnknown:
    """Return the error for a file that does not exist or is not the caller's."""
    return FileUnknown(f"task {key.task} has no file {name}")


async def offloaded_part(
    files: FileStore, key: TaskKey, belongs_to: FileOwner, part: Json, inline: int
) -> Json:
    """Return the Part with its content in the store if it is larger than `inline` bytes.

    Raises:
        LogFull: The store is at its limit.
        BusUnavailable: The store does not accept the file now.
    """
    raw = part.get("raw")
    # Base64 has four characters for three bytes.
    if not isinstance(raw, str) or len(raw) * 3 // 4 <= inline:
        return part
    name, media_type = part.get("filename", ""), part.get("mediaType", "")
    link = await files.put(key, belongs_to, base64.b64decode(raw), name, media_type)
    return {"url": link, **{name: value for name, value in part.items() if name != "raw"}}


async def with_parts(message: Json, convert: Callable[[Json], Awaitable[Json]]) -> Json:
    """Return a Message with its parts converted by `convert`; itself if they stay the same.

    Raises:
        Exception: Any error of `convert`.
    """
    given = message.get("parts", [])
    parts = [await convert(part) for part in given]
    return message if all(map(is_, parts, given)) else {**message, "parts": parts}


async def drop_links(files: FileStore, key: TaskKey, links: list[str]) -> None:
    """Delete files of the task at `key`, as far as the store answers within a few seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SOON):
            for link in links:
                with suppress(BusUnavailable):
                    await files.drop(key, link.rpartition("/")[2])


async def _cut(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), CHUNK):
        yield content[at : at + CHUNK]


def _as_it_is(msg: Msg) -> Msg:
    return msg
