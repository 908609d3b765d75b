"""Wait for something to become true, never longer than a bound."""

import time
from collections.abc import Callable

_PAUSE = 0.02


def until(holds: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Return as soon as `holds()` does.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        time.sleep(_PAUSE)
