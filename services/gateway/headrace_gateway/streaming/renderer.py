"""What a protocol makes of a feed for one client."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headrace.model.errors import HeadraceError, LogLost
from headrace_gateway.feeds import EntryRenderer, FeedBlock

_log = logging.getLogger(__name__)

type Messages = Sequence[bytes]
"""What is written in a row. Where a transport has messages, each is one; else they are joined."""


RECOVERED = "Headrace-Recovered"
"""Response header; ``false``: what came after the client's cursor is lost, a snapshot leads."""


class Cause(Enum):
    """Why a stream ends before what it shows does."""

    STOPPING = "stopping"
    """The gateway stops; another one can go on."""
    STALLED = "stalled"
    """The client has taken nothing for HEADRACE_STALL_TIMEOUT."""
    LOST = "lost"
    """The log, or the part of it that the client is at, is gone."""
    UNAVAILABLE = "unavailable"
    """The log can't be read now."""
    FAILED = "failed"
    """An event could not be rendered."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The early end of a stream. A client may resume it with its cursor."""

    cause: Cause
    reason: str
    """For the client to read."""
    error: Exception | None = None

    @classmethod
    def by(cls, error: Exception) -> "Interruption":
        """Return what `error` amounts to; of one that nobody foresaw, an id in our log."""
        if isinstance(error, HeadraceError):
            cause = Cause.LOST if isinstance(error, LogLost) else Cause.UNAVAILABLE
            return cls(cause, error.public, error)
        incident = secrets.token_hex(6)
        _log.error("incident %s", incident, exc_info=error)
        return cls(Cause.FAILED, f"internal error, incident {incident}", error)


class Renderer(Protocol):
    """Renders one feed for one client, entry by entry, in their order.

    What a protocol does not need it inherits: nothing leads the stream, it is over when the task
    rests, and nothing is said at its end.
    """

    __slots__ = ()

    def opening(self) -> Messages:
        """Return what leads the stream."""
        return ()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return what the client gets of the next `blocks`: events behind generation `after`."""

    def is_over(self, *, rests: bool) -> bool:
        """Tell whether nothing follows what has been rendered.

        `rests`: the newest event of the log has been rendered, and it ended a run.
        """
        return rests

    def ending(self) -> Messages:
        """Return what says that the stream is over."""
        return ()

    def interrupted(self, why: Interruption) -> Messages:  # noqa: ARG002 - for those who say it
        """Return what says that the stream ends early."""
        return ()


class SharedRenderer(Renderer):
    """Renders by an entry renderer: each entry once, however many clients read it."""

    __slots__ = ("_ending", "_entry_renderer", "_opening", "_splice")

    def __init__(
        self,
        entry_renderer: EntryRenderer,
        splice: bytes = b"",
        *,
        opening: bytes = b"",
        ending: bytes = b"",
    ) -> None:
        """Put `splice` where `entry_renderer` leaves room for the client's own envelope."""
        self._entry_renderer, self._splice = entry_renderer, splice
        self._opening, self._ending = opening, ending

    def opening(self) -> Messages:
        """Return the opening, and keep it no longer: streams stay open for hours."""
        opening, self._opening = self._opening, b""
        return (opening,) if opening else ()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return each block's frames."""
        return [block.render(self._entry_renderer, self._splice, after) for block in blocks]

    def ending(self) -> Messages:
        """Return the ending, if there is one."""
        return (self._ending,) if self._ending else ()
