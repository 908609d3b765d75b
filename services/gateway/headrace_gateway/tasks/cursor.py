"""Cursors: what a client sends back to resume; opaque to it, ``<log>:<generation>`` to us."""

import re
from dataclasses import dataclass
from typing import Self

_CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in one log: behind the event with that generation."""

    log: str
    generation: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what `text` says; None: it is nothing that we ever handed out."""
        found = _CURSOR.fullmatch(text.strip())
        return cls(found[1], int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.log}:{self.generation}"
