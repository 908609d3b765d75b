"""One AG-UI event of a folded log, and its place in it."""

from typing import NamedTuple

import orjson

from headrace.model.events import Json


class Frame(NamedTuple):
    """An AG-UI event; together with the log id, its place is the cursor that a client returns."""

    generation: int
    """Generation of the log's event that it comes from."""
    number: int
    """Its number among the frames of that generation, from 0."""
    event: Json

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands; places order the frames of a log."""
        return self.generation, self.number


def sse(log: str, frames: list[Frame]) -> bytes:
    """Return `frames` as server-sent events, each with its cursor as ``id``."""
    prefix = b"id: %b:" % log.encode()
    return b"".join(
        [
            b"%b%d.%d\ndata: %b\n\n" % (prefix, generation, number, orjson.dumps(event))
            for generation, number, event in frames
        ]
    )
