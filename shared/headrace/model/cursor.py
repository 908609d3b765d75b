"""Cursors: places in tasks' logs, after which clients resume."""

import re
from dataclasses import dataclass
from typing import Self

RECOVERED_HEADER = "Headrace-Recovered"
"""Response header; ``false`` if events after the client's cursor are lost. A snapshot is first."""

_CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]{0,17})")
_FRAME_CURSOR = re.compile(_CURSOR.pattern + r"\.(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in one log: after the event with that generation."""

    log: str
    generation: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the cursor in `text`, or None if it is not one that Headrace issues."""
        found = _CURSOR.fullmatch(text.strip())
        return cls(found[1], int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.log}:{self.generation}"


_THREAD_PLACE = r"(?:0|[1-9][0-9]{0,17}(?:\.[1-9][0-9]{0,8})?)"
_THREAD_CURSOR = re.compile(rf"([0-9a-f]{{8}}):({_THREAD_PLACE}(?:,{_THREAD_PLACE}){{0,63}})")


@dataclass(frozen=True, slots=True)
class ThreadCursor:
    """A place in the logs of a thread, which may be in several event streams."""

    origin: str
    """Stands for the streams: others have other sequences."""
    places: tuple[tuple[int, int], ...]
    """For each event stream the sequence of the last message read, and how many of its events
    were read; 0: all."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the cursor in `text`, or None if it is not one of a thread."""
        if (found := _THREAD_CURSOR.fullmatch(text.strip())) is None:
            return None
        places = (place.partition(".") for place in found[2].split(","))
        return cls(found[1], tuple((int(at), int(events or 0)) for at, _, events in places))

    def __str__(self) -> str:
        shown = (f"{at}.{events}" if events else f"{at}" for at, events in self.places)
        return f"{self.origin}:{','.join(shown)}"


@dataclass(frozen=True, slots=True)
class FrameCursor:
    """A place in a fold of one log: after one of the frames that the fold makes of an event."""

    log: str
    generation: int
    number: int
    """Index of the frame among those of the event, from 0."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the cursor in `text`, or None if it is not one of a fold."""
        found = _FRAME_CURSOR.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        return f"{self.log}:{self.generation}.{self.number}"

    @property
    def place(self) -> tuple[int, int]:
        """Generation and number, which order the frames of a fold."""
        return self.generation, self.number
