"""A message to a task at work, by another gateway: it has its turn, and both streams show it."""

import asyncio

import httpx

from tests.support.event_stream import Frame, all_frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent


def answer_of(task: dict) -> list[str]:  # type: ignore[type-arg]
    return ["".join(part["text"] for part in a["parts"]) for a in task["artifacts"]]


def states(streamed: list[Frame]) -> list[str]:
    return [frame.state for frame in streamed if frame.state in {"SUBMITTED", "COMPLETED"}]


async def test_a_message_to_a_running_task_is_answered_after_what_runs(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = (PlainAgent(http, url, "counter") for url in fleet.gateways[:2])

    async def first() -> list[Frame]:
        async with here.stream("8 150") as response:
            return await all_frames(response)

    running = asyncio.create_task(first())
    task = ""
    while not task:
        await asyncio.sleep(0.1)
        listed = (await there.list(status="TASK_STATE_WORKING")).json()["tasks"]
        task = listed[0]["id"] if listed else ""
    async with there.stream("3", taskId=task) as response:
        followed = await all_frames(response)
    streamed = await running
    assert states(streamed)[-2:] == ["SUBMITTED", "COMPLETED"]
    assert states(followed)[-2:] == ["SUBMITTED", "COMPLETED"]
    assert streamed[-1].generation == followed[-1].generation
    found = (await here.get(task)).json()
    assert answer_of(found) == ["1 2 3 4 5 6 7 8 ", "1 2 3 "]
    assert [m["parts"][0]["text"] for m in found["history"]] == ["8 150", "3"]
