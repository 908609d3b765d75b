"""How deep JSON from outside may be nested."""

MAX_DEPTH = 90
"""Maximum levels of ``data``, ``metadata`` and AG-UI's fields; protobuf parsers stop at 100."""

RULE = f"must not be nested deeper than {MAX_DEPTH} levels"


def is_too_deep(value: object) -> bool:
    """Return whether the objects and lists in `value` nest deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
