"""Tests that only `make soak` runs, because a cheaper one of `make test` shows what they state."""

from collections.abc import Callable

import pytest

from tests.support.resuming_sizes import IS_SOAK


def in_soak[T: Callable[..., object]](*, shown_by: str) -> Callable[[T], T]:
    """Run a test under `make soak` only; `shown_by` is what shows its claim in `make test`.

    It is a test's path in ``tests`` and its name. Whoever skips the test reads it.
    """

    def mark(test: T) -> T:
        for one in marks(shown_by=shown_by):
            test = one(test)
        return test

    return mark


def marks(*, shown_by: str) -> list[pytest.MarkDecorator]:
    """Return the same for one of a test's parameters."""
    reason = f"make soak runs it; {shown_by} shows it at less cost"
    return [pytest.mark.soak, pytest.mark.skipif(not IS_SOAK, reason=reason)]
