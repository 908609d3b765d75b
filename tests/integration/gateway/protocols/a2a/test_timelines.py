"""A2A v1.1's timeline as an extension: what client and agent said, between artifacts."""

import asyncio

import httpx

from tests.integration.gateway.protocols.a2a.test_generations import waiting_run
from tests.support.clients.bindings import Json, Rest, Rpc, message
from tests.support.scripted_fleet import ScriptedFleet

EXTENSION = "urn:headrace:timeline:v1"


def entries(task: Json) -> list[tuple[int, str]]:
    """Return the generation of each entry, with what the client said or the agent's state."""
    return [
        (one["generation"], said(one["message"]) if "message" in one else one["status"]["state"])
        for one in task["metadata"]["headrace.timeline"]
    ]


def said(content: Json) -> str:
    return "".join(part["text"] for part in content["parts"])


async def test_a_tasks_timeline_has_messages_and_states_in_order(
    http: httpx.AsyncClient,
) -> None:
    for talk in (Rest(http, "assistant"), Rpc(http, "assistant")):
        task = (await talk.call("SendMessage", message("hello")))["task"]
        found = await talk.call("GetTask", {"id": task["id"], "timelineLength": 10})
        assert entries(found) == [
            (1, "hello"),
            (2, "TASK_STATE_WORKING"),
            (4, "TASK_STATE_COMPLETED"),
        ]
        [artifact] = found["artifacts"]
        metadata = artifact["metadata"]
        assert metadata["headrace.startGeneration"] == metadata["headrace.endGeneration"] == 3
        latest = await talk.call("GetTask", {"id": task["id"], "timelineLength": "1"})
        assert entries(latest) == [(4, "TASK_STATE_COMPLETED")]
        none = await talk.call("GetTask", {"id": task["id"], "timelineLength": 0})
        assert entries(none) == []
        plain = await talk.call("GetTask", {"id": task["id"]})
        assert "headrace.timeline" not in plain["metadata"]


async def test_the_extension_is_activated_by_its_header(http: httpx.AsyncClient) -> None:
    task = (await Rest(http, "assistant").call("SendMessage", message("hello")))["task"]
    path, headers = f"/v1/agents/assistant/tasks/{task['id']}", {"A2A-Extensions": EXTENSION}
    answer = await http.get(path, headers=headers)
    assert answer.headers["a2a-extensions"] == EXTENSION
    assert len(entries(answer.json())) == 3
    wrong = await http.get(path, params={"timelineLength": "-1"})
    assert wrong.status_code == 400
    assert "timelineLength" in wrong.text


async def test_an_artifact_that_is_still_streamed_has_no_end(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    agent = Rest(http, "patient")
    task, run = await waiting_run(agent, fleet)
    await run.chunk("x")
    request = {"id": task["id"], "currentGeneration": 3, "timelineLength": 9}
    found = await asyncio.wait_for(agent.call("GetTask", request), 60)
    [artifact] = found["artifacts"]
    assert artifact["metadata"]["headrace.startGeneration"] == 3
    assert "headrace.endGeneration" not in artifact["metadata"]
    run.go_on.set()
