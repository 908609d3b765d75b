"""Copies of streams' files, which bring back what was deleted meanwhile."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import NatsProcess


@dataclass(frozen=True, slots=True)
class Backups:
    """Copies of a server's streams, taken and put back while it is stopped (docs/run/backup.md)."""

    server: NatsProcess
    folder: Path

    async def take(self, *streams: str) -> None:
        """Copy streams as they are now."""
        await asyncio.to_thread(self.server.stop)
        for stream in streams:
            shutil.copytree(self._place(stream), self.folder / stream)
        await asyncio.to_thread(self.server.start)

    async def restore(self, *streams: str) -> None:
        """Put the copies of streams in their places."""
        await self._put_back(streams, "")

    async def restore_messages(self, *streams: str) -> None:
        """Put the copies of streams' messages in their places; consumers stay as they are."""
        await self._put_back(streams, "msgs")

    async def _put_back(self, streams: tuple[str, ...], part: str) -> None:
        await asyncio.to_thread(self.server.stop)
        for stream in streams:
            place = self._place(stream) / part
            shutil.rmtree(place)
            shutil.copytree(self.folder / stream / part, place)
        await asyncio.to_thread(self.server.start)

    def _place(self, stream: str) -> Path:
        [found] = self.server.folder.glob(f"*-data/jetstream/*/streams/{stream}")
        return found
