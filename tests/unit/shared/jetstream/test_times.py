"""Times as NATS writes them, to the nanosecond."""

import pytest

from headrace.jetstream.headers import nanoseconds


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:02Z", 2_000_000_000),
        ("1970-01-01T00:00:02.5Z", 2_500_000_000),
        ("2026-11-29T13:00:00.123456789Z", 1_795_957_200_123_456_789),
    ],
)
def test_no_digit_is_lost(written: str, read: int) -> None:
    assert nanoseconds(written) == read
