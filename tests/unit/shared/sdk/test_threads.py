"""Agents whose functions are not async: each run has a thread of its own."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from headrace import Emission, MalformedOutput, RunContext, agent
from headrace.sdk.errors import AgentExited

requested_by = ContextVar("asked_by", default="nobody")


@agent
def shop(ctx: RunContext) -> Iterator[Emission]:
    """Sells."""
    yield f"{threading.current_thread().name} {requested_by.get()} "
    time.sleep(0.01)
    yield f"{threading.get_ident()} {ctx.prompt}"


@agent
def echo(ctx: RunContext) -> str:
    """Says it again."""
    return f"{threading.current_thread().name} {ctx.prompt}"


async def test_a_generator_runs_in_one_thread_with_the_callers_context() -> None:
    requested_by.set("me")
    name, who, thread, prompt = (await shop("nails")).text.split()
    assert (name, who, prompt) == ("shop_0", "me", "nails")
    assert thread != str(threading.get_ident())


async def test_a_function_runs_in_a_thread() -> None:
    assert (await echo("nails")).text == "echo_0 nails"


async def test_a_run_that_blocks_does_not_block_others() -> None:
    meeting = threading.Barrier(3)

    @agent
    def meet(_: RunContext) -> str:
        return str(meeting.wait(60))

    async with asyncio.timeout(60):
        replies = await asyncio.gather(*(meet("") for _ in range(3)))
    assert {reply.text for reply in replies} == {"0", "1", "2"}


async def test_a_run_that_is_stopped_closes_its_generator_in_its_thread() -> None:
    closed_by = list[int]()
    mine = list[int]()

    @agent
    def counter(_: RunContext) -> Iterator[Emission]:
        mine.append(threading.get_ident())
        try:
            for number in range(1000):
                yield str(number)
        finally:
            closed_by.append(threading.get_ident())

    stream = counter.stream("")
    assert await anext(stream) == "0"
    await stream.aclose()
    assert closed_by == mine


async def test_malformed_output_is_located_in_the_function() -> None:
    @agent
    def number(_: RunContext) -> Iterator[Emission]:
        yield "first"
        yield 7  # type: ignore[misc]

    with pytest.raises(MalformedOutput, match=r"can't yield int.*\(test_threads\.py:77\)"):
        await number("nails")


async def test_what_a_thread_raises_reaches_the_caller() -> None:
    @agent
    def leaver(_: RunContext) -> str:
        raise SystemExit(3)

    with pytest.raises(AgentExited, match="only its run ends"):
        await leaver("")
