"""Large files of messages, which are stored outside the log."""

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
from headrace_gateway.refusals import Unsettled


class MessageFiles:
    """Stores the files that are too large for a log in the object store."""

    def __init__(self, bus: Bus, links: Links | None) -> None:
        """Store files on `bus`; `links` converts the addresses that clients see."""
        self._files, self._inline = FileStore(bus), bus.settings.inline_bytes
        self._links = links

    @asynccontextmanager
    async def stored(
        self, key: TaskKey, belongs_to: FileOwner, message: Json, metadata: Json | None
    ) -> AsyncIterator[tuple[Json, Json | None]]:
        """Yield Message and metadata with links in place of large files, for a block that appends.

        If the message contains the public address of a file that this owner may read, the address
        becomes a link again, so that the agent gets the file. Other addresses stay unchanged. The
        metadata of an AG-UI input holds the conversation, including its files.

        If the block fails and the input is in no log, the files are dropped. Retention would not
        remove them, because it knows only the files of existing tasks.

        Raises:
            LogFull: the store is at its limit.
            BusUnavailable: the store cannot accept a file now.
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
            offloaded = await with_parts(message, stored)
            yield offloaded, await with_links(metadata, self._inline, put, link_of)
        except BaseException as error:
            # These errors leave open whether a log has the input.
            if not isinstance(error, Unsettled | OutcomeUnknown | asyncio.CancelledError):
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
