"""Large files of the messages that are taken in: stored before their message, and gone with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore, drop_links, offloaded_part, with_parts
from headrace.links import Links
from headrace.model.errors import FileUnknown, OutcomeUnknown
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace.model.user_content import with_links
from headrace_gateway.tasks.settle import Unsettled


class InputOffload:
    """Keeps the files that are too large for a log."""

    def __init__(self, bus: Bus, links: Links | None) -> None:
        """Keep them in the fleet's store; clients are shown them as `links` has it."""
        self._files, self._inline = FileStore(bus), bus.settings.inline_bytes
        self._links = links

    @asynccontextmanager
    async def offloaded(
        self, key: TaskKey, belongs_to: FileOwner, message: Json, metadata: Json | None = None
    ) -> AsyncIterator[tuple[Json, Json | None]]:
        """Yield Message and metadata with links for their large files, for a block that appends.

        The address of a file that the fleet has shown its owner becomes a link again, so that
        agents are given the file. Others' addresses stay what they are.
        The metadata of an AG-UI input holds the conversation, and its files with it. Where the
        block says that it is in no log, the files are dropped: nothing else would, for retention
        knows only those of tasks that there are.

        Raises:
            LogFull: the store is at its limit.
            BusUnavailable: it does not take a file now.
        """
        links = list[str]()

        async def put(content: bytes, media_type: str) -> str:
            links.append(await self._files.put(key, belongs_to, content, "", media_type))
            return links[-1]

        async def link_of(url: object) -> str | None:
            return await self._link_of(url, key.tenant, belongs_to)

        async def stored(part: Json) -> Json:
            one = await offloaded_part(self._files, key, belongs_to, part, self._inline)
            if one is not part:
                links.append(one["url"])
            elif (link := await link_of(part.get("url"))) is not None:
                return {**part, "url": link}
            return one

        try:
            said = await with_parts(message, stored)
            yield said, await with_links(metadata, self._inline, put, link_of)
        except BaseException as error:
            if not _may_be_in_a_log(error):
                await drop_links(self._files, key, links)
            raise

    async def _link_of(self, url: object, tenant: str, reader: FileOwner) -> str | None:
        link = None if self._links is None else self._links.stored(url)
        if link is None:
            return None
        try:
            await self._files.find(link, tenant, reader)
        except FileUnknown:
            return None
        return link


def _may_be_in_a_log(error: BaseException) -> bool:
    return isinstance(error, Unsettled | OutcomeUnknown | asyncio.CancelledError)
