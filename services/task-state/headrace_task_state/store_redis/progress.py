"""How far a range has been applied, and to which stream that refers."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A range's position, as it is kept beside the view and moved in one step with it."""

    position: int = 0
    """Stream sequence up to which all of the range's messages have been applied."""
    last: int = 0
    """Sequence of the last message applied; 0: none yet."""
    time: int = 0
    """When NATS stored that message, nanoseconds since 1970: sequences may be given out again."""
    origin: str = ""
    """When the stream was made, as NATS says it: a stream of the same name may be another one."""

    def fields(self) -> list[str | int]:
        """Return the fields and values of the hash."""
        return [
            *("position", self.position),
            *("last", self.last),
            *("time", self.time),
            *("origin", self.origin),
        ]


def read_progress(fields: Mapping[bytes, bytes]) -> Progress:
    """Return what a hash of `Progress.fields` holds; an empty one is the beginning."""
    return Progress(
        position=int(fields.get(b"position", 0)),
        last=int(fields.get(b"last", 0)),
        time=int(fields.get(b"time", 0)),
        origin=fields.get(b"origin", b"").decode(),
    )
