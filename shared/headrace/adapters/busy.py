"""HTTP responses that ask the client to retry later."""

from collections.abc import Mapping

from headrace.model.retry_after import seconds_to_wait

_LATER = frozenset({408, 409, 425, 429})
_SERVER_ERROR = 500
_LONGEST_PAUSE = 60.0


def is_busy(status: int) -> bool:
    """Return whether the status asks the client to retry later."""
    return status in _LATER or status >= _SERVER_ERROR


def pause_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``retry-after`` asks for, at most 60; None if it asks for none."""
    asked = seconds_to_wait(headers.get("retry-after"))
    return None if asked is None else min(asked, _LONGEST_PAUSE)
