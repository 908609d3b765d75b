"""What agents remember in a fleet under test, and where they are called as functions."""

import pytest

from headrace import RunContext, agent
from headrace.sdk.errors import CalledInOtherLoop
from headrace.testing import TestFleet


@agent()
async def counter(ctx: RunContext) -> str:
    """Count the messages of a conversation, and those of all."""
    here = await ctx.memory.update("count", lambda n: n + 1, 0)
    every = await ctx.memory.of_owner.update("count", lambda n: n + 1, 0)
    return f"{here} of {every}"


@agent()
def blocking(ctx: RunContext) -> str:
    """Use what only async functions can."""
    return str(ctx.memory)


async def test_a_fleet_under_test_remembers_until_it_ends() -> None:
    told = list[str]()
    async with TestFleet([counter]) as fleet:
        for context in ("a", "a", "b"):
            told.append((await fleet.send("counter", "hi", context=context)).text)
    async with TestFleet([counter]) as fleet:
        told.append((await fleet.send("counter", "hi", context="a")).text)
    assert told == ["1 of 1", "2 of 2", "1 of 3", "1 of 1"]


async def test_an_agent_that_is_called_as_a_function_remembers_for_the_call() -> None:
    for _ in range(2):
        assert (await counter("hi")).text == "1 of 1"


async def test_a_blocking_agent_is_told_to_be_async() -> None:
    with pytest.raises(CalledInOtherLoop, match=r"used ctx\.memory outside of the worker's event"):
        await blocking("hi")
