"""Calls of the context that nobody awaits fail their own run, and no other warning is lost."""

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace import Emission, RunContext, agent, tool
from headrace.testing import TestFleet

_SCRIPT = """\
import asyncio
from headrace import agent
from headrace.testing import TestFleet

@agent
async def shop(ctx):
    answer = ctx.emit("lost")
    return f"{answer}"

async def main():
    async with TestFleet([shop]) as fleet:
        print((await fleet.send("shop", "nails")).status_text)

asyncio.run(main())
"""


async def nothing() -> None:
    """Is not awaited."""


async def test_each_run_reports_its_own_calls() -> None:
    @agent
    async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
        yield "Welcome. "
        if ctx.prompt == "bad":
            ctx.emit("lost")  # type: ignore[unused-coroutine]
        await asyncio.sleep(0)
        await ctx.emit("Goodbye.")

    async with TestFleet([shop]) as fleet:
        answers = await asyncio.gather(*(fleet.send("shop", word) for word in ("good", "bad") * 3))
    assert [answer.state for answer in answers] == ["completed", "failed"] * 3
    assert all(answer.text == "Welcome. Goodbye." for answer in answers)


async def test_a_call_in_a_subtask_is_emitted() -> None:
    @agent
    async def shop(ctx: RunContext) -> str:
        async def helper() -> None:
            ctx.emit("lost")  # type: ignore[unused-coroutine]

        await asyncio.create_task(helper())
        return "done"

    async with TestFleet([shop]) as fleet:
        answer = await fleet.send("shop", "nails")
    assert "called ctx.emit() without await" in answer.status_text
    assert "test_unawaited.py:" in answer.status_text


async def test_an_exception_of_the_agent_states_more() -> None:
    @agent
    async def shop(ctx: RunContext) -> None:
        ctx.emit("lost")  # type: ignore[unused-coroutine]
        raise ValueError("empty")

    with pytest.raises(ValueError, match="empty"):
        await shop("nails")


async def test_cancelled_calls_are_no_mistake() -> None:
    @agent
    async def shop(ctx: RunContext) -> str:
        asyncio.create_task(ctx.emit("late")).cancel()
        await asyncio.sleep(0)
        return "done"

    async with TestFleet([shop]) as fleet:
        assert (await fleet.send("shop", "nails")).text == "done"


async def test_other_coroutines_are_left_to_pythons_warning() -> None:
    @agent
    async def shop(_: RunContext) -> str:
        nothing()  # type: ignore[unused-coroutine]
        return "done"

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        async with TestFleet([shop]) as fleet:
            answer = await fleet.send("shop", "nails")
        gc.collect()
    assert answer.text == "done"
    assert [(str(one.message), one.filename) for one in shown] == [
        ("coroutine 'nothing' was never awaited", __file__)
    ]


def test_a_call_that_goes_with_its_function_gets_its_location(tmp_path: Path) -> None:
    """As in a worker, the outermost code is a script, not pytest's."""
    script = tmp_path / "serving.py"
    script.write_text(_SCRIPT)
    command = [sys.executable, str(script)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "await ctx.emit(…) (serving.py:5) " in text


async def test_a_call_whose_result_is_used_without_await_is_named() -> None:
    @agent
    async def first(ctx: RunContext) -> str:
        return str(ctx.history()[0])  # type: ignore[index]

    @agent
    async def text_of(ctx: RunContext) -> str:
        return ctx.delegate("first", "nails").text  # type: ignore[attr-defined, no-any-return]

    @agent
    async def joined(ctx: RunContext) -> str:
        file = ctx.content({})
        return "stock: " + file  # type: ignore[operator]

    async with TestFleet([first, text_of, joined]) as fleet:
        for name, method in {
            "first": "history",
            "text-of": "delegate",
            "joined": "content",
        }.items():
            for _ in range(2):
                answer = await fleet.send(name, "nails")
                expected = f"called ctx.{method}() without await, so it did nothing"
                assert expected in answer.status_text, answer.status_text
                assert "(test_unawaited.py:" in answer.status_text


async def test_a_coroutine_of_the_agents_own_is_its_own_error() -> None:
    @agent
    async def shop(ctx: RunContext) -> str:
        ctx.state  # noqa: B018  # not a call
        return str(nothing()[0])  # type: ignore[index]

    with pytest.raises(TypeError, match="not subscriptable"), pytest.warns(RuntimeWarning):
        await shop("nails")


async def test_a_call_in_another_event_loop_fails_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def stock(of: str, ctx: RunContext) -> str:
        asyncio.run(ctx.tool_call("count", {"of": of}))
        return of

    @agent
    async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
        yield "Welcome. "
        await ctx.call(stock, of=ctx.prompt)

    @agent
    def streaming(ctx: RunContext) -> Iterator[Emission]:
        yield "Welcome. "
        ctx.delegate_stream("shop", "nails")

    @agent
    def returning(ctx: RunContext) -> None:
        asyncio.run(anext(ctx.inbox))

    expected = {"shop": "tool_call", "streaming": "delegate_stream", "returning": "inbox"}
    async with TestFleet([shop, streaming, returning]) as fleet:
        for name, method in expected.items():
            for _ in range(2):
                answer = await fleet.send(name, "nails")
                assert answer.state == "failed"
                # Of a tool only the log says more, as of any error in one.
                logged = caplog.text if name == "shop" else answer.status_text
                assert (
                    f"agent '{name}' used ctx.{method} outside of the worker's event loop" in logged
                )
                assert "(test_unawaited.py:" in logged
                caplog.clear()
