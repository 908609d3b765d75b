"""Cursors of a folded log: what a client sends back to go on behind a frame."""

import re
from dataclasses import dataclass
from typing import Self

from headrace_gateway.protocols.agui.frame import Frame

_CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class FrameCursor:
    """A place in one log's fold: behind that frame; ``<log>:<generation>.<frame>`` on the wire."""

    log: str
    generation: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what `text` says; None: it is nothing that a run's stream ever handed out."""
        found = _CURSOR.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        return f"{self.log}:{self.generation}.{self.number}"

    @property
    def place(self) -> tuple[int, int]:
        """The frame's place (see `Frame.place`)."""
        return self.generation, self.number

    def on(self, frame: Frame) -> Frame:
        """Return `frame` under this cursor: it tells again what the client has been told."""
        return Frame(self.generation, self.number, frame.event)
