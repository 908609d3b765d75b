"""Parts of a message or an artifact that come in pieces, and are merged when they are read."""

from headrace.model.events import Json

_TEXT_AND_METADATA = 2


def same_but_text(part: Json, other: Json) -> bool:
    """Return whether two text parts differ only in their text, so that they can be merged."""
    if len(part) != len(other):
        return False
    if len(part) == _TEXT_AND_METADATA and "metadata" in part:
        return "metadata" in other and bool(part["metadata"] == other["metadata"])
    return all(key in other and (key == "text" or other[key] == part[key]) for key in part)


class Pieces:
    """Parts in order, each with its generation; they are merged when they are read."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        """Start empty."""
        self._pieces: list[tuple[int, Json | list[str]]] = []
        """Parts, and texts of consecutive generations, with the (first) generation of each."""

    def extend(self, generation: int, parts: list[Json]) -> None:
        """Append the parts of a piece."""
        for part in parts:
            self._pieces.append((generation, part))

    def go_on(self, generation: int, texts: list[str]) -> None:
        """Append texts of consecutive generations to the last text part."""
        self._pieces.append((generation, texts))

    def drop_after(self, generation: int) -> None:
        """Discard the parts after `generation`."""
        while self._pieces and self._pieces[-1][0] > generation:
            self._pieces.pop()
        if self._pieces:
            first, piece = self._pieces[-1]
            if isinstance(piece, list):
                self._pieces[-1] = first, piece[: generation + 1 - first]

    def merged(self, before: int | None = None) -> list[Json]:
        """Return the parts before generation `before`; adjacent texts that match are merged."""
        run = _TextRun()
        for generation, piece in self._pieces:
            if before is not None and generation >= before:
                break
            if isinstance(piece, list):
                run.go_on(piece if before is None else piece[: before - generation])
            else:
                run.take(piece)
        return run.finish()


class _TextRun:
    """Merges adjacent text parts."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._first: Json | None = None
        self._texts: list[str] = []

    def go_on(self, texts: list[str]) -> None:
        if self._first is None:
            self._first = {"text": ""}
        self._texts += texts

    def take(self, piece: Json) -> None:
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
