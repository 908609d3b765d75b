"""Cursors of threads: what is read is what was written, and nothing else is read."""

import pytest

from headrace.model.cursor import ThreadCursor


@pytest.mark.parametrize("text", ["5c1f09aa:57", "5c1f09aa:57.2,0", "5c1f09aa:0,12.1"])
def test_the_cursor_of_a_thread_is_read_as_it_was_written(text: str) -> None:
    assert str(ThreadCursor.parse(text)) == text


@pytest.mark.parametrize("place", ["", "-1", "0.1", "1.0", "01", "1,", "1" * 19, "1.1234567890"])
def test_a_place_that_no_cursor_has_is_none(place: str) -> None:
    assert ThreadCursor.parse(f"5c1f09aa:{place}") is None
