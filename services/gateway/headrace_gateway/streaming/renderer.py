"""Rendering a feed for one client of a protocol."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from headrace.log_lines import UNLIMITED
from headrace.model.errors import HeadraceError, LogLost
from headrace_gateway.feeds import EntryRenderer, FeedBlock

_log = logging.getLogger(__name__)

type Messages = Sequence[bytes]
"""Messages to write in a row: one each on transports with messages, otherwise joined."""


class Cause(Enum):
    """The cause of a stream's early end."""

    STOPPING = "stopping"
    """The gateway stops; another one can continue."""
    STALLED = "stalled"
    """The client has read nothing for HEADRACE_STALL_TIMEOUT."""
    LOST = "lost"
    """The log is gone, or the part of it after the client's last event."""
    UNAVAILABLE = "unavailable"
    """The log can't be read now."""
    FAILED = "failed"
    """An event could not be rendered."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The early end of a stream. A client may resume it with its cursor."""

    cause: Cause
    reason: str
    """Text for the client."""
    error: Exception | None = None

    @classmethod
    def by(cls, error: Exception) -> "Interruption":
        """Return the interruption for `error`; log an unexpected one under an incident id."""
        if isinstance(error, HeadraceError):
            cause = Cause.LOST if isinstance(error, LogLost) else Cause.UNAVAILABLE
            return cls(cause, error.public, error)
        incident = secrets.token_hex(6)
        _log.error("incident %s", incident, exc_info=error, extra=UNLIMITED)
        return cls(Cause.FAILED, f"internal error, incident {incident}", error)


class Renderer(Protocol):
    """Renders one feed for one client, entry by entry, in order.

    Defaults for protocols that need no more: no opening, the stream is over when a run has ended,
    and no message at the end.
    """

    __slots__ = ()

    def opening(self) -> Messages:
        """Return the messages at the beginning of the stream."""
        return ()

    def render(self, blocks: Sequence[Any], after: int) -> Messages:
        """Return the messages for the next `blocks` of its source: what follows `after`.

        The blocks of a feed are `FeedBlock`, and `after` is a generation.
        """

    def is_over(self, *, run_ended: bool) -> bool:
        """Return whether the stream is over after the rendered events.

        `run_ended`: the log's newest event has been rendered, and it ended a run.
        """
        return run_ended

    def ending(self) -> Messages:
        """Return the messages at the regular end of the stream."""
        return ()

    def interrupted(self, why: Interruption) -> Messages:  # noqa: ARG002 - for subclasses
        """Return the messages at the early end of the stream."""
        return ()


class SharedRenderer(Renderer):
    """Renders with an entry renderer: each entry once for its first client, once for all others."""

    __slots__ = ("_ending", "_entry_renderer", "_opening", "_splice")

    def __init__(
        self,
        entry_renderer: EntryRenderer,
        splice: bytes = b"",
        *,
        opening: bytes = b"",
        ending: bytes = b"",
    ) -> None:
        """Put `splice` at the places that `entry_renderer` leaves for the client's envelope."""
        self._entry_renderer, self._splice = entry_renderer, splice
        self._opening, self._ending = opening, ending

    def opening(self) -> Messages:
        """Return the opening and free it, because streams stay open for hours."""
        opening, self._opening = self._opening, b""
        return (opening,) if opening else ()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return each block's frames."""
        renderer, splice = self._entry_renderer, self._splice
        return [splice.join(block.pieces(renderer, after)) for block in blocks]

    def ending(self) -> Messages:
        """Return the ending, if there is one."""
        return (self._ending,) if self._ending else ()
