import logging

import pytest

from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace_task_state.maintenance.due import repeat
from headrace_task_state.store import LeaseLost


async def test_passes_go_on_after_an_outage_until_the_lease_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes = [None, BusUnavailable("NATS"), StateUnavailable("Redis"), None, LeaseLost("gone")]

    async def look() -> None:
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    with caplog.at_level(logging.INFO):
        await repeat(look, 0.0, "the sweep")
    assert not outcomes
    assert caplog.messages == ["the sweep is delayed: NATS", "the sweep is delayed: Redis"]


async def test_a_pass_that_breaks_ends_the_duty() -> None:
    async def look() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await repeat(look, 0.0, "the sweep")
