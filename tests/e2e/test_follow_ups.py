"""A message to a task at work, by another gateway: it has its turn, and both streams show it."""

from pathlib import Path

import httpx
import pytest

from tests.support.event_stream import Frame, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent


def answer_of(task: dict) -> list[str]:  # type: ignore[type-arg]
    return ["".join(part["text"] for part in a["parts"]) for a in task["artifacts"]]


def states(streamed: list[Frame]) -> list[str]:
    return [frame.state for frame in streamed if frame.state in {"SUBMITTED", "COMPLETED"}]


@pytest.mark.usefixtures("extra_worker")
async def test_a_message_to_a_running_task_is_answered_after_what_runs(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    here, there = (PlainAgent(http, url, "gated") for url in fleet.gateways[:2])
    async with here.stream(f"{gate}") as response:
        first = frames(response)
        streamed = [await anext(first) for _ in range(3)]
        task = streamed[0].event["task"]["id"]
        async with there.stream(f"{gate}", taskId=task) as other:
            second = frames(other)
            followed = [await anext(second)]
            gate.touch()
            followed += [frame async for frame in second]
        streamed += [frame async for frame in first]
    assert states(streamed)[-2:] == ["SUBMITTED", "COMPLETED"]
    assert states(followed)[-2:] == ["SUBMITTED", "COMPLETED"]
    assert streamed[-1].generation == followed[-1].generation
    found = (await here.get(task)).json()
    assert answer_of(found) == ["before after"] * 2
    assert [m["parts"][0]["text"] for m in found["history"]] == [f"{gate}"] * 2
