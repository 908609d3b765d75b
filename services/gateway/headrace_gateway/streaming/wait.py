"""Waiting on a feed for one answer; nothing is written before the renderer has collected it.

The renderer collects most entries without waking the waiting task, which wakes at the end.
"""

from collections.abc import Callable

from starlette.requests import ClientDisconnect

from headrace_gateway.feeds import Feed
from headrace_gateway.server.client_pace import SlowClient
from headrace_gateway.server.long_responses import Disconnects
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.subscription import DirectSubscription, Subscriptions
from headrace_gateway.timing import TIMING

LOG_FULL = "the log is full"


class Wait:
    """One waiting request. It is registered as an open stream, so that it ends with the gateway."""

    def __init__(
        self,
        shared: Subscriptions,
        feed: Feed,
        after: int,
        collector: Renderer,
        *,
        is_full: Callable[[float], bool] | None = None,
        silence: float = TIMING.full_stream,
    ) -> None:
        """Wait until `collector` is over; the caller holds `feed`.

        `is_full` returns whether the event stream is full, given loop time. A wait without an event
        for `silence` seconds ends early then.
        """
        self._shared, self._is_full, self._silence = shared, is_full, silence
        self._subscription = DirectSubscription(shared, feed, after, collector, _NullTransport())
        self._after, self._since = -1, 0.0

    async def over(self, disconnects: Disconnects) -> Interruption | None:
        """Return None when the collector is over, or the reason why it will not be.

        Raises:
            ClientDisconnect: the client disconnected.
        """
        stop_watching = disconnects.watch(self._subscription.leave)
        self._shared.open.add(self)
        try:
            why = await self._subscription.serve()
        finally:
            self._shared.open.remove(self)
            stop_watching()
        if self._subscription.is_left:
            raise ClientDisconnect
        return why

    def tick(self, now: float) -> None:
        """End a silent wait if the event stream is full."""
        if self._subscription.after != self._after:
            self._after, self._since = self._subscription.after, now
        elif now - self._since > self._silence and self._is_full is not None and self._is_full(now):
            self.close(LOG_FULL)

    def close(self, reason: str) -> None:
        """End the wait."""
        self._subscription.interrupt(Interruption(Cause.STOPPING, reason))


class _NullTransport:
    """Writes nothing."""

    __slots__ = ("keepalive", "slow")

    def __init__(self) -> None:
        self.keepalive: Messages = ()
        self.slow = SlowClient(None)

    async def begin(self) -> None:
        """Write nothing."""

    async def write(self, messages: Messages) -> None:
        """Write nothing."""

    def write_now(self, messages: Messages) -> bool:  # noqa: ARG002 - as above
        """Write nothing."""
        return True

    async def end(self, messages: Messages, why: Interruption | None) -> None:
        """Write nothing."""
