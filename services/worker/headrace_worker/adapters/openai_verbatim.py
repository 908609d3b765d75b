"""Fields of a model's message that this library does not know, put together from their pieces."""

from collections.abc import Mapping
from typing import Any

from headrace.model.events import Json

_NAMES = frozenset({"id", "type", "format", "name", "role"})
"""Of strings that come whole, however often: every other string comes in pieces."""


class Fields:
    """Puts the fields of a streamed message together."""

    def __init__(self) -> None:
        """Begin without any."""
        self.found: Json = {}

    def add(self, pieces: Mapping[str, Any] | None) -> None:
        """Take what one delta brings of them."""
        for name, piece in (pieces or {}).items():
            if piece is not None:
                self.found[name] = _joined(name, self.found.get(name), piece)


def _joined(name: str, known: Any, piece: Any) -> Any:  # noqa: ANN401  # any JSON
    match known, piece:
        case str(), str() if name not in _NAMES:
            return known + piece
        case dict(), dict():
            merged = Fields()
            merged.found = dict(known)
            merged.add(piece)
            return merged.found
        case list(), list():
            return _extended(known, piece)
    return piece


def _extended(known: list[Any], pieces: list[Any]) -> list[Any]:
    """Return the list with `pieces` behind it; those that name an item's index go on with it."""
    items = list(known)
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        at = next((n for n, item in enumerate(items) if _is_at(item, index)), None)
        if at is None:
            items.append(piece)
        else:
            items[at] = _joined("", items[at], piece)
    return items


def _is_at(item: Any, index: Any) -> bool:  # noqa: ANN401  # any JSON
    return index is not None and isinstance(item, dict) and item.get("index") == index
