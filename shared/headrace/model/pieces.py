"""Parts of a message or an artifact that come in pieces, and are merged when they are read."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.model.events import Json

_TEXT_AND_METADATA = 2


def same_but_text(part: Json, other: Json) -> bool:
    """Return whether two text parts differ only in their text, so that they can be merged."""
    if len(part) != len(other):
        return False
    if len(part) == _TEXT_AND_METADATA and "metadata" in part:
        return "metadata" in other and bool(part["metadata"] == other["metadata"])
    return all(key in other and (key == "text" or other[key] == part[key]) for key in part)


class _Texts(NamedTuple):
    """Texts of consecutive generations, joined: thousands of them are read as one."""

    text: str
    lengths: Sequence[int]
    """Characters of each; empty: there is only one."""

    def first(self, number: int) -> str:
        """Return the first `number` of them."""
        if number >= (len(self.lengths) or 1):
            return self.text
        return self.text[: sum(self.lengths[: max(number, 0)])]


class Pieces:
    """Parts in order, each with its generation; they are merged when they are read."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        """Start empty."""
        self._pieces: list[tuple[int, Json | _Texts]] = []
        """Parts, and texts of consecutive generations, with the (first) generation of each."""

    def extend(self, generation: int, parts: list[Json]) -> None:
        """Append the parts of a piece."""
        for part in parts:
            self._pieces.append((generation, part))

    def continue_text(self, generation: int, text: str, lengths: Sequence[int] = ()) -> None:
        """Append a text to the last text part.

        With `lengths` it consists of texts of so many characters, of consecutive generations.
        """
        self._pieces.append((generation, _Texts(text, lengths)))

    def drop_after(self, generation: int) -> None:
        """Discard the parts after `generation`."""
        while self._pieces and self._pieces[-1][0] > generation:
            self._pieces.pop()
        if self._pieces:
            first, piece = self._pieces[-1]
            if isinstance(piece, _Texts):
                number = generation + 1 - first
                self._pieces[-1] = first, _Texts(piece.first(number), piece.lengths[:number])

    def merged(self, before: int | None = None) -> list[Json]:
        """Return the parts before generation `before`; adjacent texts that match are merged."""
        run = _TextRun()
        for generation, piece in self._pieces:
            if before is not None and generation >= before:
                break
            if isinstance(piece, _Texts):
                run.continue_text(
                    piece.text if before is None else piece.first(before - generation)
                )
            else:
                run.add(piece)
        return run.finish()


class _TextRun:
    """Merges adjacent text parts."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._first: Json | None = None
        self._texts: list[str] = []

    def continue_text(self, text: str) -> None:
        if self._first is None:
            self._first = {"text": ""}
        self._texts.append(text)

    def add(self, piece: Json) -> None:
        text = piece.get("text")
        if text is not None and self._first is not None and same_but_text(self._first, piece):
            self._texts.append(text)
            return
        self._close()
        if text is None:
            self._parts.append(piece)
        else:
            self._first, self._texts = piece, [text]

    def _close(self) -> None:
        if self._first is not None:
            self._parts.append({**self._first, "text": "".join(self._texts)})
            self._first, self._texts = None, []

    def finish(self) -> list[Json]:
        self._close()
        return self._parts
