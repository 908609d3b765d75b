"""A log writer whose log is the test's: what becomes of an append is decided by one method."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from headrace.log import AppendRequest, AppendResult
from headrace.log.append import HEADER_ROOM
from headrace.model.entry import Stamp
from headrace.model.errors import EventTooLarge
from headrace.model.events import Draft


class FakeLogWriter:
    """Sends appends as `LogWriter` does; subclasses store them, or fail."""

    sent: Sequence[Draft] = ()
    """The events of the last append."""

    async def append(self, drafts: Sequence[Draft], stamp: Stamp) -> None:
        """Store an append; what this raises is the outcome of the append."""
        raise NotImplementedError

    def send(self, drafts: Sequence[Draft], stamp: Stamp) -> AppendRequest:
        """Begin an append."""
        self.sent = drafts
        answer = cast("asyncio.Future[Any]", asyncio.ensure_future(self.append(drafts, stamp)))
        return AppendRequest(b"", stamp, len(drafts), answer)

    def send_again(self, sent: AppendRequest) -> AppendRequest:
        """Begin the same append again."""
        return self.send(self.sent, sent.stamp)

    @staticmethod
    def alike(_: Stamp) -> None:
        """Know no headers: each append is sent by `send`."""

    @staticmethod
    def check(stamp: Stamp) -> None:
        """Check the headers that may be large."""
        size = len(stamp.checkpoint or "") + len(stamp.step or "")
        if size > HEADER_ROOM:
            raise EventTooLarge(size, HEADER_ROOM)

    @staticmethod
    def acked(sent: AppendRequest) -> AppendResult | None:
        """End an append that was stored."""
        failed = sent.answer.exception() is not None
        return None if failed else AppendResult(0, sent.stamp.generation + sent.events - 1)

    @staticmethod
    async def finish(sent: AppendRequest, _: float) -> None:
        """Wait for an append's outcome."""
        await sent.answer

    @staticmethod
    def give_up(sent: AppendRequest) -> None:
        """End an append without its outcome."""
        sent.answer.cancel()
