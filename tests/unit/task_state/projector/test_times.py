"""Times of events, as the view stores them."""

import pytest

from headrace_task_state.projector.delta import time_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:02.5Z", 2500),
        ("2026-11-29T13:00:00.123+01:00", 1_795_953_600_123),
        ("2026-11-29T13:00:00", 0),
        ("soon", 0),
        (None, 0),
    ],
)
def test_a_time_is_milliseconds_and_what_is_none_is_0(text: object, expected: int) -> None:
    assert time_ms(text) == expected
