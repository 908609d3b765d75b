"""What NATS has refused to a connection's user.

A server reports a refused publication or subscription as an error of the connection, not as the
answer to a request: who asked hears nothing.
"""

import re
import time
from collections import OrderedDict

_DENIED = re.compile(
    r"permissions violation for (publish|subscription) to \"((?:[^\"\\]|\\.)*)\"", re.IGNORECASE
)
_MOST = 1000
"""Refusals that are remembered, the last ones."""


class Denials:
    """The refusals that one connection was told of, with their times by the monotonic clock."""

    def __init__(self) -> None:
        """Begin without any."""
        self._at = OrderedDict[tuple[str, str], float]()

    def note(self, error: Exception) -> None:
        """Remember the refusal that an error of the connection reports, if it is one."""
        denied = _DENIED.search(str(error))
        if denied is None:
            return
        key = denied[1].lower(), denied[2].lower()
        self._at[key] = time.monotonic()
        self._at.move_to_end(key)
        if len(self._at) > _MOST:
            self._at.popitem(last=False)

    def of_publishing(self, subject: str, since: float) -> bool:
        """Return whether a message on `subject` was refused at or after `since`."""
        return self._is_noted("publish", subject, since)

    def of_subscribing(self, subject: str, since: float) -> bool:
        """Return whether a subscription to `subject` was refused at or after `since`."""
        return self._is_noted("subscription", subject, since)

    def _is_noted(self, what: str, subject: str, since: float) -> bool:
        # As the server quotes it. nats-py turns its errors into lower case.
        quoted = subject.replace("\\", "\\\\").replace('"', '\\"').lower()
        return self._at.get((what, quoted), float("-inf")) >= since
