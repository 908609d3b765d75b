"""Durations as Go writes them."""

from datetime import timedelta

import pytest

from headrace.model.go_duration import interval


@pytest.mark.parametrize(
    ("every", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.m", timedelta(minutes=1)),
        ("1ms2us3µs", timedelta(milliseconds=1, microseconds=5)),
        ("1s and 2m", timedelta(seconds=121)),
        ("7", timedelta()),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(every: str, length: timedelta) -> None:
    assert interval(every) == length


@pytest.mark.timeout(60)
@pytest.mark.parametrize("digits", ["0", "0.", "1.0"])
def test_many_digits_without_a_unit_take_no_time(digits: str) -> None:
    assert interval(digits * 100_000) == timedelta()
