"""Agents that are called as functions."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace import (
    Complete,
    Emission,
    FleetRequired,
    InputRequired,
    MalformedOutput,
    Reject,
    Retry,
    RunContext,
    State,
    StateDelta,
    Status,
    Thinking,
    agent,
)
from headrace.sdk.errors import Misdeclared
from headrace.sdk.tools import as_tools


@agent
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Sells."""
    yield Thinking("Nails, hm.")
    await ctx.emit(Status("looking"))
    await ctx.emit(State({"of": ctx.prompt}))
    await ctx.emit(StateDelta([{"op": "add", "path": "/left", "value": 7}]))
    await ctx.checkpoint(1)
    yield f"{ctx.state['left']} "
    yield Complete(ctx.state["of"])


async def test_a_call_returns_what_the_agent_emitted() -> None:
    reply = await shop("nails")
    assert (reply.text, reply.state) == ("7 nails", "completed")
    assert reply.outputs[:2] == [Thinking("Nails, hm."), Status("looking")]
    assert reply.outputs[-1] == Complete("nails")


async def test_a_returned_text_and_a_whole_message_are_taken() -> None:
    @agent
    async def echo(ctx: RunContext) -> str:
        return f"{ctx.prompt} {ctx.metadata['of']}"

    request = {"parts": [{"text": "Say"}], "metadata": {"of": "this"}}
    assert (await echo(request)).text == "Say this"


@pytest.mark.parametrize(
    ("end", "state"), [(InputRequired("How many?"), "input-required"), (Reject("No."), "rejected")]
)
async def test_the_end_is_reported(end: InputRequired | Reject, state: str) -> None:
    @agent
    async def ender(_: RunContext) -> AsyncIterator[Emission]:
        yield "Well. "
        yield end

    reply = await ender("")
    assert reply.state == state
    assert reply.text in {"How many?", "No."}


async def test_a_stream_goes_no_further_than_its_reader() -> None:
    steps = list[str]()

    @agent
    async def counter(_: RunContext) -> AsyncIterator[Emission]:
        try:
            for number in range(10):
                steps.append(f"made {number}")
                yield str(number)
        finally:
            steps.append("ended")

    stream = counter.stream("")
    async for output in stream:
        steps.append(f"read {output}")
        await asyncio.sleep(0.01)
        if output == "1":
            break
    await stream.aclose()
    assert steps == ["made 0", "read 0", "made 1", "read 1", "ended"]


async def test_a_read_that_takes_too_long_loses_nothing() -> None:
    goes_on = asyncio.Event()

    @agent
    async def pausing(_: RunContext) -> AsyncIterator[Emission]:
        yield "one"
        await goes_on.wait()
        yield "two"
        yield "three"

    stream = pausing.stream("")
    assert await anext(stream) == "one"
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
    goes_on.set()
    assert [output async for output in stream] == ["two", "three"]


async def test_a_stream_that_is_dropped_cancels_its_agent() -> None:
    ended = asyncio.Event()

    @agent
    async def endless(_: RunContext) -> AsyncIterator[Emission]:
        try:
            while True:
                yield "again"
        finally:
            ended.set()

    async for _ in endless.stream(""):
        break
    gc.collect()
    async with asyncio.timeout(10):
        await ended.wait()


async def test_exceptions_are_raised_to_the_caller() -> None:
    @agent
    async def broken(ctx: RunContext) -> AsyncIterator[Emission]:
        yield "first"
        raise KeyError(ctx.prompt)

    with pytest.raises(KeyError, match="nails"):
        await broken("nails")


async def test_malformed_output_is_located() -> None:
    @agent
    async def number(_: RunContext) -> AsyncIterator[Emission]:
        yield 7  # type: ignore[misc]

    with pytest.raises(MalformedOutput, match=r"can't yield int.*\(test_direct_run\.py:\d+\)"):
        await number("nails")


async def test_nothing_follows_the_end() -> None:
    @agent
    async def late(ctx: RunContext) -> AsyncIterator[Emission]:
        await ctx.emit(Complete("done"))
        yield "and more"

    with pytest.raises(MalformedOutput, match="str after the run's end"):
        await late("")


@pytest.mark.parametrize(
    ("need", "does"),
    [
        (lambda ctx: ctx.delegate("clerk", "How many?"), "delegates to 'clerk'"),
        (lambda ctx: ctx.reply(), "replies to an agent that it delegated to"),
        (lambda ctx: ctx.auth_required("Who?"), "asks its user during the run"),
        (lambda ctx: anext(ctx.inbox), "waits for messages during the run"),
    ],
    ids=["delegate", "answer", "auth_required", "inbox"],
)
async def test_what_needs_a_fleet_states_what_to_use(
    need: Callable[[RunContext], Awaitable[object]], does: str
) -> None:
    @agent
    async def manager(ctx: RunContext) -> AsyncIterator[Emission]:
        await need(ctx)
        yield ""

    received = (
        f"agent 'manager' {does}, which needs a fleet: test it with headrace.testing.TestFleet"
    )
    with pytest.raises(FleetRequired) as refused:
        await manager("nails")
    assert received in str(refused.value)


def test_an_agent_is_no_tool_although_it_can_be_called() -> None:
    with pytest.raises(Misdeclared, match="Agent is not a tool"):
        as_tools([shop])


@agent
async def till(ctx: RunContext) -> str:
    """Return the keys of two effects."""

    def charge(idempotency_key: str) -> str:
        return idempotency_key

    return f"{await ctx.step('charge', charge)} {ctx.uuid()}"


async def test_each_call_has_keys_of_its_own() -> None:
    keys = {key for _ in range(2) for key in (await till("hi")).text.split()}
    assert len(keys) == 4


async def test_a_call_within_a_step_has_the_same_keys_whenever_the_step_is_tried() -> None:
    found = list[str]()

    @agent
    async def shop(ctx: RunContext) -> None:
        async def pay() -> None:
            found.append((await till("hi")).text)
            if len(found) < 2:
                raise OSError

        await ctx.step("pay", pay, retry=Retry(backoff=0.001))
        found.append((await till("hi")).text)

    await shop("hi")
    assert found[0] == found[1] != found[2]
