"""Offload of files that are too large for the log: the store keeps them, the log a link."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore, drop_links, offloaded_part, with_parts
from headrace.model.errors import BusUnavailable, LogFull, StateUnavailable
from headrace.model.events import Json
from headrace.model.messages import DropFile
from headrace.model.task import TaskKey
from headrace.sdk.emit import Artifact, Emission, File, check_texts
from headrace.state_client import StateClient

_log = logging.getLogger(__name__)

_PAUSE = 0.5


class WorkerFiles(FileStore):
    """The object store as workers use it: task state deletes files for them."""

    def __init__(self, bus: Bus) -> None:
        """Store files on `bus`."""
        super().__init__(bus)
        self._state = StateClient(bus)

    async def drop(self, key: TaskKey, name: str = "*") -> None:
        """Request the deletion of a file of the task at `key`.

        Raises:
            BusUnavailable: task state does not answer; the file is deleted with its task.
        """
        file = DropFile(tenant=key.tenant, agent=key.agent, task=key.task, name=name)
        try:
            await self._state.drop(file)
        except StateUnavailable as error:
            raise BusUnavailable(str(error)) from error


@dataclass(frozen=True, slots=True)
class Offload:
    """Offload of one run's large files."""

    files: FileStore
    key: TaskKey
    belongs_to: FileOwner
    """The task's owner and context; files in messages to child tasks belong to them too."""
    inline: int
    """Maximum size in bytes of a file in the log."""

    async def offloaded(self, output: Emission) -> Emission:
        """Store the large files of `output`, and return it with links to them.

        Waits while NATS is unavailable.

        Raises:
            MalformedOutput: a field has the wrong type.
            LogFull: the store is full.
        """
        match output:
            case File(content=bytes() as content) if len(content) > self.inline:
                check_texts(output)
                return replace(
                    output,
                    content=None,
                    url=await self._put(content, output.name, output.media_type),
                )
            case Artifact():
                return replace(output, parts=[await self._part(part) for part in output.parts])
        return output

    async def of(self, message: Json) -> tuple[Json, list[str]]:
        """Return a Message with its large files stored, and the links to those files.

        Waits while NATS is unavailable.

        Raises:
            LogFull: the store is full.
        """
        links = list[str]()

        async def stored(part: Json) -> Json:
            one = await self._part(part)
            if one is not part:
                links.append(one["url"])
            return one

        return await with_parts(message, stored), links

    async def drop(self, links: list[str]) -> None:
        """Request the deletion of files of the task; ignored if task state does not answer."""
        await drop_links(self.files, self.key, links)

    async def store(self, content: bytes, media_type: str = "") -> str:
        """Store a file of the task and return its link. Waits while NATS is unavailable.

        Raises:
            LogFull: the store is full.
        """
        return await self._put(content, "", media_type)

    async def content(self, link: str) -> bytes:
        """Return the content of a stored file of the task or its conversation.

        Raises:
            FileUnknown: the file is gone, of another conversation, or not in this store.
            BusUnavailable: the store does not answer.
        """
        return await self.files.read(link, self.key.tenant, self.belongs_to)

    async def _put(self, content: bytes, filename: str, media_type: str) -> str:
        put = partial(self.files.put, self.key, self.belongs_to, content, filename, media_type)
        return await self._wait_for(put)

    async def _wait_for[T](self, put: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await put()
            except LogFull:
                raise
            except BusUnavailable as error:
                _log.warning("a file is waiting to be stored; retrying: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _part(self, part: Json) -> Json:
        put = partial(offloaded_part, self.files, self.key, self.belongs_to, part, self.inline)
        return await self._wait_for(put)
