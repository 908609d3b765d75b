"""What times an agent may sleep until, called as a function."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace import RunContext, agent
from headrace.sdk.direct_run import DirectRun


def context() -> RunContext:
    return DirectRun("sleeper", "hi").context


@pytest.mark.parametrize(
    ("when", "rule"),
    [
        (datetime(2030, 1, 1), "time zone"),  # noqa: DTZ001 - what is refused
        (datetime.max.replace(tzinfo=UTC), "365 days"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))), "365 days"),
    ],
)
async def test_an_impossible_time_to_sleep_until_is_refused(when: datetime, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        await context().sleep_until(when)


@pytest.mark.parametrize(
    "when",
    [
        datetime.now(UTC) - timedelta(seconds=1),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
    ],
)
async def test_a_time_in_the_past_is_not_waited_for(when: datetime) -> None:
    await context().sleep_until(when)


async def test_an_agent_that_is_called_as_a_function_sleeps_where_it_is() -> None:
    @agent
    async def sleeper(ctx: RunContext) -> str:
        before = datetime.now(UTC)
        await ctx.sleep(0.02)
        assert datetime.now(UTC) - before >= timedelta(seconds=0.02)
        return "awake"

    assert (await sleeper("hi")).text == "awake"
