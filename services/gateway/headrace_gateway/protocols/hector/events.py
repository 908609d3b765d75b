"""Hector's AG-UI events and their wire format."""

from typing import NamedTuple

from headrace.model import json_text
from headrace.model.cursor import FrameCursor
from headrace.model.events import Json

DONE = b"event: done\ndata: {}\n\n"
"""End of every stream of server-sent events."""

DONE_MARK = b"data: [DONE]\n\n"
"""End of the stream for clients that request this form."""


class HectorEvent(NamedTuple):
    """One Hector event."""

    generation: int
    """Generation of the log event that it comes from."""
    number: int
    """Index among the events of that generation, from 0."""
    name: str
    time: str
    """RFC 3339 timestamp."""
    payload: Json

    @property
    def place(self) -> tuple[int, int]:
        """Position of the event; positions order the events of a log."""
        return self.generation, self.number

    def cursor(self, log: str) -> str:
        """Return the cursor with which a client resumes after this event."""
        return str(FrameCursor(log, self.generation, self.number))

    def json(self) -> Json:
        """Return the event in its envelope."""
        upper, first, *rest = self.name.upper(), *self.name.split("_")
        payload = {key: value for key, value in self.payload.items() if not _is_zero(value)}
        return {
            "eventId": f"evt-{self.generation}.{self.number}",
            "type": f"AGUI_EVENT_TYPE_{upper}",
            **({"timestamp": self.time} if self.time else {}),
            first + "".join(word.title() for word in rest): payload,
        }


def sse(log: str, events: list[HectorEvent]) -> bytes:
    """Return `events` as server-sent events, each with its cursor as ``id``."""
    return b"".join(
        [
            b"id: %b:%d.%d\nevent: %b\ndata: %b\n\n"
            % (log.encode(), *one.place, one.name.encode(), json_text.encode(one.json()))
            for one in events
        ]
    )


def _is_zero(value: object) -> bool:
    """Return whether protobuf's JSON omits the value."""
    return value is None or value is False or value in ("", 0, [], {})
