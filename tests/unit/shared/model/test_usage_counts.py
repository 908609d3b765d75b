"""Numbers of tokens and costs that others state."""

import math

import pytest

from headrace.model.usage_counts import cost_of, token_count

NONE: list[object] = [None, "5", "", True, -1, -0.5, math.nan, math.inf, -math.inf, [], {}]


@pytest.mark.parametrize(("stated", "count"), [(0, 0), (5, 5), (5.0, 5), (2**53 - 1, 2**53 - 1)])
def test_a_whole_number_is_a_count(stated: float, count: int) -> None:
    assert (token_count(stated), type(token_count(stated))) == (count, int)


@pytest.mark.parametrize("stated", [*NONE, 0.5, 2**53, 10**400, 1e300])
def test_anything_else_is_no_count(stated: object) -> None:
    assert token_count(stated) == 0


@pytest.mark.parametrize("stated", [0, 0.25, 3, 1e300])
def test_a_number_that_is_not_negative_is_a_cost(stated: float) -> None:
    assert cost_of(stated) == stated


@pytest.mark.parametrize("stated", [*NONE, 10**400])
def test_anything_else_is_no_cost(stated: object) -> None:
    assert cost_of(stated) == 0.0
