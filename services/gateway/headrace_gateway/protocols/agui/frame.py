"""One AG-UI event of a folded log, and its position."""

from collections.abc import Callable
from typing import NamedTuple

import orjson

from headrace.model import json_text
from headrace.model.events import Json


class AguiFrame(NamedTuple):
    """An AG-UI event; its position and the log id form the cursor."""

    generation: int
    """Generation of the log event that it comes from."""
    number: int
    """Index among the frames of that generation, from 0."""
    event: Json

    @property
    def place(self) -> tuple[int, int]:
        """Position of the frame; positions order the frames of a log."""
        return self.generation, self.number


def sse(log: str, frames: list[AguiFrame]) -> bytes:
    """Return `frames` as server-sent events, each with its cursor as ``id``."""
    try:
        # As with `json_text.encode`, without its call for each token.
        return json_text.one_line(_framed(log, frames, orjson.dumps))  # noqa: TID251
    except TypeError:
        return _framed(log, frames, json_text.encode)


def _framed(log: str, frames: list[AguiFrame], encode: Callable[[Json], bytes]) -> bytes:
    prefix = b"id: %b:" % log.encode()
    return b"".join(
        [
            b"%b%d.%d\ndata: %b\n\n" % (prefix, generation, number, encode(event))
            for generation, number, event in frames
        ]
    )
