"""Texts of consecutive generations are kept, cut and merged as if each was a part of its own."""

import pytest

from headrace.model.events import Json
from headrace.model.pieces import Pieces


def pieces() -> Pieces:
    """Return texts of generations 2 to 6."""
    made = Pieces()
    made.extend(2, [{"text": "2"}])
    made.continue_text(3, "345", [1, 1, 1])
    made.continue_text(6, "6")
    return made


@pytest.mark.parametrize("last", range(2, 8))
def test_what_came_after_a_generation_is_dropped_though_it_came_with_earlier_texts(
    last: int,
) -> None:
    found = pieces()
    found.drop_after(last)
    found.extend(9, [{"text": "9"}])
    assert found.merged() == [{"text": "23456"[: last - 1] + "9"}]


@pytest.mark.parametrize("before", range(2, 9))
def test_parts_before_a_generation_leave_out_the_rest_of_its_texts(before: int) -> None:
    expected: list[Json] = [{"text": "23456"[: before - 2]}] if before > 2 else []
    assert pieces().merged(before) == expected


def test_texts_without_a_part_before_them_are_one() -> None:
    found = Pieces()
    found.drop_after(0)
    found.continue_text(3, "34", [1, 1])
    assert found.merged() == [{"text": "34"}]
    found.drop_after(2)
    assert found.merged() == []


def test_texts_are_cut_by_characters() -> None:
    texts = ["größe", "", "👩‍🚀", "x"]
    for last in range(2, 8):
        found = Pieces()
        found.extend(2, [{"text": "_"}])
        found.continue_text(3, "".join(texts), list(map(len, texts)))
        expected = [{"text": "_" + "".join(texts[: last - 2])}]
        assert found.merged(last + 1) == expected
        found.drop_after(last)
        assert found.merged() == expected
