"""How deep JSON from outside may be nested."""

from typing import Any

MAX_DEPTH = 90
"""Maximum levels of ``data``, ``metadata`` and AG-UI's fields; protobuf parsers stop at 100."""

RULE = f"must not be nested deeper than {MAX_DEPTH} levels"


_NESTING = (dict, list)


def is_too_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Return whether the objects and lists in `value` nest deeper than `levels`, at least 1."""
    level: list[Any] = [value] if isinstance(value, _NESTING) else []
    for _ in range(levels - 1):
        if not level:
            return False
        # Other values, of which there are the most, end here.
        level = [
            child
            for one in level
            for child in (one.values() if isinstance(one, dict) else one)
            if isinstance(child, _NESTING)
        ]
    return any(level)
