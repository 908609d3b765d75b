"""One AG-UI event of a folded log, its position, and the cursor for that position."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

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


_CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class FrameCursor:
    """The position after a frame of one log's fold: ``<log>:<generation>.<frame>`` on the wire."""

    log: str
    generation: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse `text`; return None if it is not a cursor of a run's stream."""
        found = _CURSOR.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        return f"{self.log}:{self.generation}.{self.number}"

    @property
    def place(self) -> tuple[int, int]:
        """The frame's position (see `AguiFrame.place`)."""
        return self.generation, self.number

    def on(self, frame: AguiFrame) -> AguiFrame:
        """Return `frame` with this cursor, for a repeated event."""
        return AguiFrame(self.generation, self.number, frame.event)
