"""The response that streams a task in the dialect."""

from collections.abc import Mapping

from starlette.types import Send

from headrace_gateway.event_stream import EventStream, EventStreams
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.hector.asking import Place
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.told import DONE, Told, sse
from headrace_gateway.sse import HEADERS, REST


class HectorStream(EventStream):
    """An ASGI application: one task, one client; ends with ``event: done``, or ``event: error``."""

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place
        self,
        owner: EventStreams,
        feed: Feed,
        log: str,
        start: int,
        place: tuple[int, int] | None,
        headers: Mapping[str, str],
        ending: bytes = DONE,
    ) -> None:
        """Fold from behind generation `start` on; tell what stands behind `place`; then `ending`.

        This takes over the caller's use of the feed.
        """
        super().__init__(owner, feed, start, REST, b"", b"", HEADERS | dict(headers))
        self._log, self._start, self._place = log, start, place or (0, 0)
        self._fold, self._ending = HectorFold(), ending

    async def _pump(self, send: Send) -> bytes:
        last = await super()._pump(send)
        if self._gone:
            return last
        if not self._closing:
            return last + self._ending
        code = "disconnected" if self._feed.loss is None else "log_lost"
        return sse(self._log, self._fold.broken(code, self._closing)) + last

    async def _forward(self, send: Send) -> bytes | None:
        blocks = await self._reader.read_now()
        if not blocks:
            return await self._wait(send)
        told = [one for block in blocks for one in self._fold.read(block.entry, self._start)]
        data = sse(self._log, [one for one in told if self._is_new(one)])
        newest = blocks[-1].entry
        if newest.ends_leg and newest.last_generation == self._feed.head:
            return data
        if data:
            await self._write(send, data)
        return None

    def _is_new(self, told: Told) -> bool:
        return told.place > self._place


def behind(place: Place | None, cursor: str) -> tuple[int, int] | None:
    """Return behind which place to tell, by a cursor of the dialect or one of A2A's."""
    if place is not None:
        return place.generation, place.number
    generation = cursor.rpartition(":")[2]
    return (int(generation), 10**9) if generation.isdecimal() else None
