"""Who blocks a worker's event loop is named, with the line and what to write instead."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from inspect import getsourcelines

import pytest

from headrace import RunContext, agent
from headrace.sdk.agent import Agent
from headrace_worker.blocked_loop import what_blocks

go = threading.Event()


@agent
async def napping(_: RunContext) -> AsyncIterator[str]:
    """Sleeps without awaiting."""
    while not go.is_set():
        time.sleep(0.01)  # noqa: ASYNC251  # what is looked for
    yield "awake"


def compute() -> None:
    go.wait()


@agent
async def computing(_: RunContext) -> str:
    """Computes for long."""
    compute()
    return "done"


@pytest.mark.parametrize(
    ("blocking", "function", "source", "remedy"),
    [
        (napping, napping.function, "time.sleep(0.01)", "await asyncio.sleep(…)"),
        (computing, compute, "go.wait()", "await asyncio.to_thread(function, …)"),
    ],
    ids=["sleep", "computation"],
)
def test_the_agent_and_the_line_are_named(
    blocking: Agent, function: Callable[..., object], source: str, remedy: str
) -> None:
    go.clear()
    lines, first = getsourcelines(function)
    number = first + next(i for i, line in enumerate(lines) if source in line)
    place = f" (test_blocked_loop.py:{number}): `"

    async def run() -> None:
        await blocking("now")

    loop = threading.Thread(target=lambda: asyncio.run(run()))
    loop.start()
    try:
        deadline = time.monotonic() + 60
        agent_, where = what_blocks(loop.ident or 0)
        while not where.startswith(place) and time.monotonic() < deadline:
            agent_, where = what_blocks(loop.ident or 0)
    finally:
        go.set()
        loop.join()
    assert agent_ == f"agent {blocking.name!r}"
    assert where.startswith(f"{place}{source}")
    assert where.endswith(f"; write {remedy} instead")


def test_code_of_authors_outside_of_a_run_is_an_agents() -> None:
    go.clear()
    thread = threading.Thread(target=compute)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not (found := what_blocks(thread.ident or 0))[1] and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        go.set()
        thread.join()
    assert found[0] == "an agent"
    assert "`go.wait()`" in found[1]


def test_no_agent_is_blamed_where_no_authors_code_runs() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    found = what_blocks(thread.ident or 0)
    done.set()
    thread.join()
    assert (found, what_blocks(0)) == (("", ""), ("", ""))
