"""A task that waits for its user: its stream ends, and goes on with the answer."""

import asyncio

import httpx
import pytest

from tests.support.event_stream import Frame, all_frames, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message

pytestmark = pytest.mark.usefixtures("extra_worker")


def task_of(streamed: list[Frame]) -> str:
    return str(streamed[0].event["task"]["id"])


async def first_frame(response: httpx.Response) -> Frame:
    return await anext(frames(response))


async def test_the_body_ends_when_input_is_required(fleet: Fleet, http: httpx.AsyncClient) -> None:
    async with PlainAgent(http, fleet.gateways[0], "asker").stream("hello") as response:
        streamed = await all_frames(response)
    assert streamed[-1].state == "INPUT_REQUIRED"


async def test_a_follow_up_streams_the_task_first_and_goes_on(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "asker")
    async with agent.stream("hello") as response:
        request = await all_frames(response)
    there = PlainAgent(http, fleet.gateways[1], "asker")
    async with there.stream("Ada", taskId=task_of(request)) as response:
        answered = await all_frames(response)
    assert "task" in answered[0].event
    assert answered[0].generation == request[-1].generation
    assert [f.state for f in answered if f.state] == [
        "INPUT_REQUIRED",
        "SUBMITTED",
        "WORKING",
        "COMPLETED",
    ]


async def test_a_cursor_at_the_question_waits_for_the_answer(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "asker")
    async with agent.stream("hello") as response:
        request = await all_frames(response)
    there = PlainAgent(http, fleet.gateways[1], "asker")
    async with there.subscribe(task_of(request), request[-1].id) as response:
        waiting = asyncio.create_task(first_frame(response))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done
        answer = http.post(
            f"{agent.url}/message:send",
            json={"message": message("Ada", taskId=task_of(request))},
        )
        assert (await answer).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await waiting).generation == request[-1].generation + 1
