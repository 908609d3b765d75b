"""What a run counts of the usage that is reported to it."""

import math
from typing import Any

import pytest

from headrace import Usage
from headrace.sdk.token_usage import usage_of
from headrace_worker.usage import Prices, UsageTotals


@pytest.mark.parametrize("wrong", ["5", None, -1, 0.5, math.nan, math.inf, 2**60, True])
def test_what_is_no_count_is_left_out_and_named_once(
    caplog: pytest.LogCaptureFixture,
    wrong: Any,  # noqa: ANN401  # what an outside party states
) -> None:
    totals, wrong_usage = UsageTotals(), Usage("m", "p", wrong, 7, cost=-1.0)
    taken = [totals.add_priced(wrong_usage, Prices()) for _ in range(2)]
    assert taken == [Usage("m", "p", 0, 7)] * 2
    assert (totals.tokens, totals.cost) == (14, 0.0)
    [warning] = caplog.messages
    assert warning.startswith("Usage.input_tokens, Usage.cost must be a number")


def test_usage_that_is_sound_is_counted_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    totals, used = UsageTotals(), Usage("m", "p", 3, 4, total_tokens=9, cost=0.5)
    assert totals.add_priced(used, Prices()) == used
    assert (totals.tokens, totals.cost, caplog.messages) == (9, 0.5, [])


@pytest.mark.parametrize("reported", [None, "x", [], {"model": 5, "inputTokens": "3", "cost": "1"}])
def test_an_outside_report_that_is_malformed_counts_nothing(reported: object) -> None:
    used = usage_of(reported)
    assert (used.input_tokens, used.output_tokens, used.cost) == (0, 0, 0.0)
    assert isinstance(used.model, str)
