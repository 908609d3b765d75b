"""CopilotKit's own client core, given the fleet's /copilotkit and no Node server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.fleet import Fleet
from tests.support.waiting import eventually

type Drive = Callable[..., Json]


@contextmanager
def opened_page() -> Iterator[Drive]:
    """Yield what runs the client and returns all it holds; it has nothing to complain of."""
    with javascript.Script("copilotkit.mjs") as script:

        def driven(url: str, *steps: Json, **more: Any) -> Json:  # noqa: ANN401
            held: Json = script.run({"runtimeUrl": f"{url}/copilotkit", "steps": steps, **more})
            assert (held["errors"], held["warnings"]) == ([], [])
            assert held["status"] == "connected"
            return held

        yield driven


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    with opened_page() as drive:
        yield drive


def said(driven: Json) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content", "")) for message in driven["messages"]]


@pytest.mark.parametrize("transport", ["rest", "single"])
async def test_it_finds_the_agents_runs_their_tools_and_comes_back_to_the_thread(
    fleet: Fleet, transport: str, drive: Drive
) -> None:
    steps: list[Json] = [{"text": "hi"}, {"text": "a green background"}, {"connect": True}]
    driven = drive(
        fleet.gateways[0],
        *steps,
        agentId="agentic_chat",
        transport=transport,
        tools={"change_background": "painted"},
    )
    assert {"default", "echo", "agentic_chat"} <= set(driven["agents"])
    assert driven["called"] == [{"name": "change_background", "args": {"background": "green"}}]
    assert said(driven) == [
        ("user", "hi"),
        ("assistant", "You said: hi"),
        ("user", "a green background"),
        ("assistant", "Let me paint. "),
        ("tool", "painted"),
        ("assistant", "The background: painted"),
    ]


async def test_another_page_comes_back_to_the_thread_by_another_gateway(
    fleet: Fleet, drive: Drive
) -> None:
    first = drive(fleet.gateways[0], {"text": "a basil"}, agentId="shared_state")
    thread = first["threadId"]
    with opened_page() as come_back:
        again = come_back(
            fleet.gateways[1], {"connect": True}, agentId="shared_state", threadId=thread
        )
    assert again["messages"] == first["messages"]
    assert again["state"] == first["state"]
    assert again["state"]["recipe"]["ingredients"][0]["name"] == "a basil"


async def test_a_thread_without_runs_is_empty(fleet: Fleet, drive: Drive) -> None:
    driven = drive(fleet.gateways[0], {"connect": True}, agentId="echo", threadId="never-seen")
    assert (driven["messages"], driven["steps"]) == ([], [{"events": []}])


@pytest.mark.parametrize("transport", ["rest", "single"])
async def test_stopping_stops_the_task(
    fleet: Fleet, http: httpx.AsyncClient, transport: str, drive: Drive
) -> None:
    step = {"text": "100000 50", "stopAt": "TEXT_MESSAGE_CONTENT"}
    driven = drive(fleet.gateways[0], step, agentId="counter", transport=transport)
    url = f"{fleet.gateways[1]}/v1/agents/counter/tasks"

    async def is_canceled() -> bool:
        listed = (await http.get(url, params={"contextId": driven["threadId"]})).json()["tasks"]
        return [task["status"]["state"] for task in listed] == ["TASK_STATE_CANCELED"]

    await eventually(is_canceled, "the task is canceled")


async def test_who_names_no_agent_gets_the_fleets_default(fleet: Fleet, drive: Drive) -> None:
    driven = drive(fleet.gateways[0], {"text": "two words"})
    assert ("assistant", "You said 2 words: two words") in said(driven)
