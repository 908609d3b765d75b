"""Which answers over HTTP say that somebody should ask again later."""

_LATER = frozenset({408, 409, 425, 429})
_SERVER_ERROR = 500


def is_busy(status: int) -> bool:
    """Tell whether the status says: later."""
    return status in _LATER or status >= _SERVER_ERROR


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds that a ``retry-after`` header names, at most 60; None: it names none."""
    try:
        return min(max(float(retry_after or ""), 0.0), 60.0)
    except ValueError:
        return None
