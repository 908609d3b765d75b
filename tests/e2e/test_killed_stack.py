"""`headrace dev` is killed, and started again on the same data."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.event_stream import Json, frames
from tests.support.pids import living
from tests.support.plain_a2a import PlainAgent
from tests.support.resuming_sizes import sized
from tests.support.stack import ANEW, BASIC_AGENTS, Stack
from tests.support.waiting import eventually


@pytest.fixture
def stacks(tmp_path: Path) -> Iterator[list[Stack]]:
    """A stack that keeps its data, and its successor, on one folder; neither is started.

    The successor knows by their commands which processes are left of the first.
    """
    pair = [
        Stack(tmp_path, arguments=("--port", "0"), workers=2, agents=BASIC_AGENTS, program=ANEW)
        for _ in range(2)
    ]
    yield pair
    for stack in pair:
        if stack.is_launched:
            stack.close()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of the test's own."""
    with Stack(tmp_path, agents=BASIC_AGENTS) as stack:
        yield stack


async def listed(agent: PlainAgent) -> list[Json]:
    answer = await agent.list(includeArtifacts=True)
    assert answer.status_code == 200, answer.text
    tasks: list[Json] = answer.json()["tasks"]
    return tasks


async def begin(agent: PlainAgent, text: str) -> str:
    """Start a task, see it at work, and leave."""
    async with agent.stream(text) as response:
        stream = frames(response)
        task = (await anext(stream)).event["task"]["id"]
        for _ in range(3):
            await anext(stream)
    return str(task)


async def test_killed_and_started_again_it_knows_and_finishes_every_task(
    stacks: list[Stack], http: httpx.AsyncClient
) -> None:
    first, second = stacks
    await asyncio.to_thread(first.start)
    agent = PlainAgent(http, first.url, "counter")
    for text in ("2", "3", "no number"):
        await agent.send(text)
    before = await listed(agent)
    assert len(before) == 3
    unfinished = await begin(agent, "30 100")
    pids = first.pids()
    os.kill(first.pid, signal.SIGKILL)

    await asyncio.to_thread(second.start)

    assert living(pids) == []
    agent = PlainAgent(http, second.url, "counter")
    assert [task for task in await listed(agent) if task["id"] != unfinished] == before

    async def has_ended() -> bool:
        found = await agent.get(unfinished)
        return bool(found.json()["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(has_ended, "the task that was at work has been finished")
    assert (await agent.send("3")).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_sigterm_ends_all_of_it_within_5_s_though_a_task_is_at_work(
    stack: Stack, http: httpx.AsyncClient
) -> None:
    pids = stack.pids()
    async with PlainAgent(http, stack.url, "counter").stream("100000 100") as response:
        stream = frames(response)
        seen = [await anext(stream) for _ in range(4)]
        started = time.monotonic()
        stopping = asyncio.create_task(asyncio.to_thread(stack.stop))
        seen += [frame async for frame in stream]
        assert await stopping == 0
    assert time.monotonic() - started < sized(30, 5)
    assert living(pids) == []
    assert [frame.generation for frame in seen] == list(range(1, len(seen) + 1))
    assert {frame.state for frame in seen} <= {None, "SUBMITTED", "WORKING"}
