"""Interceptors are entered around each attempt of an agent, whatever becomes of it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest

from headrace import (
    Agent,
    Emission,
    Interceptor,
    Retry,
    Retryable,
    RunContext,
    Status,
    adapters,
    agent,
)
from headrace.sdk.errors import Misdeclared
from headrace.testing import TestFleet


def noting(name: str, notes: list[str]) -> Interceptor:
    """Return an interceptor that notes when it is entered, and with what it is left."""

    @asynccontextmanager
    async def noted(ctx: RunContext) -> AsyncIterator[None]:
        notes.append(f"{name} {ctx.prompt}")
        try:
            yield
        except BaseException as error:
            notes.append(f"{name} {error!r}")
            raise
        notes.append(f"{name} ends")

    return noted


@asynccontextmanager
async def retrying(_: RunContext) -> AsyncIterator[None]:
    try:
        yield
    except KeyError as error:
        raise Retryable("the key comes later", after=0.0) from error


def without_errors(_: RunContext) -> AbstractAsyncContextManager[object]:
    return nothing_raised()


@asynccontextmanager
async def nothing_raised() -> AsyncIterator[None]:
    with suppress(ValueError):
        yield


async def test_the_first_is_outermost() -> None:
    notes: list[str] = []

    @agent(interceptors=[noting("outer", notes), noting("inner", notes)])
    async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
        notes.append("works")
        yield ctx.prompt

    assert (await shop("nails")).text == "nails"
    assert notes == ["outer nails", "inner nails", "works", "inner ends", "outer ends"]


async def test_an_error_passes_through_it_and_may_be_suppressed() -> None:
    notes: list[str] = []

    @agent(interceptors=[without_errors, noting("inner", notes)])
    async def shop(ctx: RunContext) -> str:
        raise ValueError(ctx.prompt)

    assert (await shop("nails")).text == ""
    assert notes == ["inner nails", "inner ValueError('nails')"]


async def test_it_emits_output_of_the_run() -> None:
    @asynccontextmanager
    async def greeting(ctx: RunContext) -> AsyncIterator[None]:
        await ctx.emit("Welcome. ")
        yield
        await ctx.emit(Status("closed"))

    @agent(interceptors=[greeting])
    async def shop(_: RunContext) -> AsyncIterator[Emission]:
        yield "Nails?"

    outputs = [output async for output in shop.stream("x")]
    assert outputs == ["Welcome. ", "Nails?", Status("closed")]


async def test_each_attempt_of_a_worker_is_intercepted_and_an_error_translated() -> None:
    notes: list[str] = []

    @agent(retry=Retry(attempts=2), interceptors=[noting("outer", notes), retrying])
    async def shop(ctx: RunContext) -> str:
        if ctx.attempt == 1:
            raise KeyError("nails")
        return "There are 7."

    async with TestFleet([shop]) as fleet:
        assert (await fleet.send("shop", "nails")).text == "There are 7."
    failed = "outer Retryable('the key comes later')"
    assert notes == ["outer nails", failed, "outer nails", "outer ends"]


def test_adapters_take_them() -> None:
    made: Agent = adapters.openai_agent(
        name="model", model="m", base_url="http://127.0.0.1:1", interceptors=[retrying]
    )
    assert made.interceptors == (retrying,)


WRONG: list[Any] = [retrying, "audit", ["audit"], None]


@pytest.mark.parametrize("given", WRONG, ids=["function", "str", "list of str", "None"])
def test_what_is_no_list_of_functions_is_refused(given: list[Interceptor]) -> None:
    async def shop(_: RunContext) -> None: ...

    with pytest.raises(Misdeclared, match=r"interceptors of agent .shop. must be a list of"):
        agent(name="shop", interceptors=given)(shop)
