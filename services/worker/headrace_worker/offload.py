"""Files that are too large for the log: they go to the store, and a link stands in their place."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import (
    FileOwner,
    FileStore,
    drop_links,
    offloaded_part,
    with_parts,
)
from headrace.model.errors import BusUnavailable, LogFull, StateUnavailable
from headrace.model.events import Json
from headrace.model.messages import DropFile
from headrace.model.task import TaskKey
from headrace.sdk.emit import Emission, File
from headrace.sdk.relayed import Artifact
from headrace.state_client import StateClient
from headrace_worker.encoder import check_texts

_log = logging.getLogger(__name__)

_PAUSE = 0.5


class WorkerFiles(FileStore):
    """The store as workers use it: what they may not purge, task state does."""

    def __init__(self, bus: Bus) -> None:
        """Keep files on `bus`."""
        super().__init__(bus)
        self._state = StateClient(bus)

    async def drop(self, key: TaskKey, name: str = "*") -> None:
        """Have a file of the task at `key` forgotten.

        Raises:
            BusUnavailable: task state does not answer; the file goes with its task.
        """
        file = DropFile(tenant=key.tenant, agent=key.agent, task=key.task, name=name)
        try:
            await self._state.drop(file)
        except StateUnavailable as trouble:
            raise BusUnavailable(str(trouble)) from trouble


@dataclass(frozen=True, slots=True)
class Offload:
    """Stows what one run's agent says."""

    files: FileStore
    key: TaskKey
    belongs_to: FileOwner
    """To the task's owner and context, as what its children are asked with."""
    inline: int
    """Bytes of the largest file that the log takes."""

    async def offloaded(self, said: Emission) -> Emission:
        """Return `said` as it may stand in the log, once its large files are stored.

        However long NATS is away: as the log, the store takes it when it is back.

        Raises:
            MalformedOutput: a field is not of its type's shape.
            LogFull: the store is at its limit.
        """
        match said:
            case File(content=bytes() as content) if len(content) > self.inline:
                check_texts(said)
                return replace(
                    said, content=None, url=await self.put(content, said.name, said.media_type)
                )
            case Artifact():
                return replace(said, parts=[await self._part(part) for part in said.parts])
        return said

    async def of(self, message: Json) -> tuple[Json, list[str]]:
        """Return a Message for another agent, and the links of its files that were stored.

        However long NATS is away, as `stowed`.

        Raises:
            LogFull: the store is at its limit.
        """
        links = list[str]()

        async def stored(part: Json) -> Json:
            one = await self._part(part)
            if one is not part:
                links.append(one["url"])
            return one

        return await with_parts(message, stored), links

    async def drop(self, links: list[str]) -> None:
        """Forget files of the task, as far as task state answers."""
        await drop_links(self.files, self.key, links)

    async def put(self, content: bytes, filename: str = "", media_type: str = "") -> str:
        """Store a file of the task and return its link, however long NATS is away.

        Raises:
            LogFull: the store is at its limit.
        """
        put = partial(self.files.put, self.key, self.belongs_to, content, filename, media_type)
        return await self._wait_for(put)

    async def _wait_for[T](self, put: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await put()
            except LogFull:
                raise
            except BusUnavailable as trouble:
                _log.warning("a file is waiting to be stored: %s", trouble)
                await asyncio.sleep(_PAUSE)

    async def _part(self, part: Json) -> Json:
        put = partial(offloaded_part, self.files, self.key, self.belongs_to, part, self.inline)
        return await self._wait_for(put)
