"""How long an HTTP response asks to wait."""

from datetime import timedelta
from email.utils import format_datetime

import pytest

from headrace import clock
from headrace.model.retry_after import seconds_to_wait


@pytest.mark.parametrize(("header", "seconds"), [("0", 0.0), ("3", 3.0), (" 0.5 ", 0.5)])
def test_seconds_may_have_fractions(header: str, seconds: float) -> None:
    assert seconds_to_wait(header) == seconds


def test_a_date_is_as_many_seconds_away() -> None:
    date = format_datetime(clock.now() + timedelta(hours=1), usegmt=True)
    assert 3590.0 < (seconds_to_wait(date) or 0.0) <= 3600.0


@pytest.mark.parametrize(
    "date", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 -0000"]
)
def test_a_date_in_the_past_is_now(date: str) -> None:
    assert seconds_to_wait(date) == 0.0


@pytest.mark.parametrize(
    "header",
    [None, "", "soon", "-1", "nan", "1e3", "1_0", "٣", "Wed, 21 Oct 99999 07:28:00 GMT"],
)
def test_anything_else_asks_for_nothing(header: str | None) -> None:
    assert seconds_to_wait(header) is None


def test_more_seconds_than_a_float_has_are_endless() -> None:
    assert seconds_to_wait("9" * 5000) == float("inf")
