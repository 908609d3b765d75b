"""A subscription that writes most entries without waking its task.

For the usual case, a few entries for a client that keeps up, waking the task would cost as much as
all else. Its source is a feed, which has new entries in memory, and its transport can write without
waiting; other sources and transports have a plain `Subscription`.
"""

import asyncio
from typing import Protocol

from headrace_gateway.feeds import FeedReader
from headrace_gateway.streaming.renderer import Interruption, Messages
from headrace_gateway.streaming.subscription import Subscription, Transport


class DirectTransport(Transport, Protocol):
    """A transport that can write without waiting."""

    def write_now(self, messages: Messages) -> bool:
        """Write without waiting; return False if nothing was written, because it has to wait."""


class DirectSubscription(Subscription):
    """A feed for a client whose transport can write without waiting."""

    __slots__ = ("_rendered",)

    _reader: FeedReader
    _transport: DirectTransport
    _rendered: Messages | None
    """Rendered while the task waited, and not written yet."""

    async def _wait_for_change(self) -> Messages | None:
        self._rendered = None
        await self._reader.wait(self._serve)
        rendered, self._rendered = self._rendered, None
        return None if self._gone else rendered

    def _serve(self) -> bool:
        """Write what has followed while the task waits for it; return False if the task has to."""
        if self._why is not None or self._gone or self._transport.slow.buffered:
            return False
        reader, renderer = self._reader, self._renderer
        self._grow_reads()
        after = reader.after
        try:
            blocks = reader.read_ring()
            if not blocks:
                return blocks is not None and not reader.at_end
            messages = renderer.render(blocks, after)
            is_over = renderer.is_over(rests=reader.rests)
        except Exception as error:  # noqa: BLE001 - every error is sent to the client
            self._why = Interruption.by(error)
            return False
        if is_over or (messages and not self._transport.write_now(messages)):
            self._rendered = messages
            return False
        if messages:
            self._silent_since = asyncio.get_running_loop().time()
        return True
