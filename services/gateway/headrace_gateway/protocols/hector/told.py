"""Events of the dialect, and their form on the wire."""

from typing import NamedTuple

import orjson

from headrace.model.events import Json

DONE = b"event: done\ndata: {}\n\n"
"""What ends every stream."""

DONE_MARK = b"data: [DONE]\n\n"
"""What ends it for clients that ask for this."""


class Told(NamedTuple):
    """One event of the dialect."""

    generation: int
    """Generation of the log's event that it comes from."""
    number: int
    """Its number among those of that generation, from 0."""
    name: str
    time: str
    """RFC 3339."""
    payload: Json

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands; places order the events of a log."""
        return self.generation, self.number

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


def sse(log: str, told: list[Told]) -> bytes:
    """Return `told` as server-sent events, each with its cursor as ``id``."""
    return b"".join(
        [
            b"id: %b:%d.%d\nevent: %b\ndata: %b\n\n"
            % (log.encode(), *one.place, one.name.encode(), orjson.dumps(one.json()))
            for one in told
        ]
    )


def _is_zero(value: object) -> bool:
    """Tell whether protobuf's JSON leaves the value out."""
    return value is None or value is False or value in ("", 0, [], {})
