"""HTTP responses that ask the client to retry later."""

_LATER = frozenset({408, 409, 425, 429})
_SERVER_ERROR = 500


def is_busy(status: int) -> bool:
    """Return whether the status asks the client to retry later."""
    return status in _LATER or status >= _SERVER_ERROR


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a ``retry-after`` header, at most 60; None if it has none."""
    try:
        return min(max(float(retry_after or ""), 0.0), 60.0)
    except ValueError:
        return None
