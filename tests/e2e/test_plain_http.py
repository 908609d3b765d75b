"""What curl sees: the main job with plain HTTP, no version header, nothing of the SDK."""

import httpx
import pytest

from tests.support.event_stream import Frame, all_frames, frames, text_of
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message

DEMO_AGENTS = {"assistant", "counter", "echo"}


def texts(task: dict[str, list[dict[str, list[dict[str, str]]]]]) -> str:
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


async def test_agents_are_discovered(fleet: Fleet, http: httpx.AsyncClient) -> None:
    [url, _] = fleet.gateways
    listed = (await http.get(f"{url}/v1/agents")).json()["agents"]
    assert {agent["name"] for agent in listed if agent["available"]} >= DEMO_AGENTS
    well_known = (await http.get(f"{url}/.well-known/a2a")).json()["agents"]
    assert {agent["name"] for agent in well_known} >= DEMO_AGENTS
    entry = (await http.get(f"{url}/.well-known/a2a/agents/echo")).json()["agent"]
    card = (await http.get(f"{url}/v1/agents/echo/.well-known/agent-card.json")).json()
    assert entry == card
    assert card["name"] == "echo"
    at_root = (await http.get(f"{url}/.well-known/agent-card.json")).json()
    assert at_root["name"] == "assistant"


async def test_health_is_reported(fleet: Fleet, http: httpx.AsyncClient) -> None:
    assert len(fleet.gateways) == 2
    for url in fleet.gateways:
        assert (await http.get(f"{url}/healthz")).status_code == 200
        assert (await http.get(f"{url}/readyz")).status_code == 200


async def test_a_blocking_send_answers_with_the_finished_task(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    answer = await PlainAgent(http, fleet.gateways[0], "counter").send("3")
    task = answer.json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(task) == "1 2 3 "
    assert task["history"][0]["parts"][0]["text"] == "3"


async def test_return_immediately_answers_before_the_end(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "counter")
    task = (await agent.send("1000 50", returnImmediately=True)).json()["task"]
    assert task["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    assert (await agent.cancel(task["id"])).json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await agent.get(task["id"])).json()["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_message_that_the_counter_does_not_take_is_rejected_with_the_rule(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    task = (await PlainAgent(http, fleet.gateways[0], "counter").send("many")).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["status"]["message"]["parts"][0]["text"]


async def test_the_main_job_over_json_rpc(fleet: Fleet, http: httpx.AsyncClient) -> None:
    here, there = (PlainAgent(http, url, "counter") for url in fleet.gateways)
    sent = (await here.rpc("SendMessage", message=message("3"))).json()
    assert (sent["jsonrpc"], sent["id"]) == ("2.0", "call-1")
    task = sent["result"]["task"]
    assert texts(task) == "1 2 3 "
    assert (await there.rpc("GetTask", id=task["id"])).json()["result"] == task
    listed = (await there.rpc("ListTasks", contextId=task["contextId"])).json()["result"]
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    begun = await here.rpc(
        "SendMessage", message=message("1000 50"), configuration={"returnImmediately": True}
    )
    running = begun.json()["result"]["task"]["id"]
    cancelled = (await there.rpc("CancelTask", id=running)).json()["result"]
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_page_of_tasks_leads_to_the_next(fleet: Fleet, http: httpx.AsyncClient) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "echo")
    first = (await agent.send("a")).json()["task"]
    context = first["contextId"]
    again = await http.post(
        f"{agent.url}/message:send", json={"message": message("b", contextId=context)}
    )
    second = again.json()["task"]
    page = (await agent.list(contextId=context, pageSize=1)).json()
    assert [task["id"] for task in page["tasks"]] == [second["id"]]
    assert (page["totalSize"], page["pageSize"]) == (2, 1)
    rest = await agent.list(contextId=context, pageSize=1, pageToken=page["nextPageToken"])
    assert [task["id"] for task in rest.json()["tasks"]] == [first["id"]]
    assert rest.json()["nextPageToken"] == ""


@pytest.mark.parametrize("suffix", ["", "/"], ids=["without slash", "with slash"])
async def test_json_rpc_is_served_with_and_without_a_trailing_slash(
    fleet: Fleet, http: httpx.AsyncClient, suffix: str
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message("a")}}
    for base in (fleet.gateways[0], f"{fleet.gateways[0]}/v1/agents/assistant"):
        answer = await http.post(f"{base}{suffix}", json=body)
        state = answer.json()["result"]["task"]["status"]["state"]
        assert (answer.status_code, state) == (200, "TASK_STATE_COMPLETED")


async def test_the_default_agent_answers_rest_at_the_root(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    body = {"message": message("What is a headrace?")}
    async with http.stream("POST", f"{fleet.gateways[0]}/message:stream", json=body) as response:
        streamed = await all_frames(response)
    assert streamed[-1].state == "COMPLETED"


async def test_closing_a_stream_does_not_touch_the_task(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "counter")
    async with agent.stream("20 50") as response:
        first: Frame = await anext(frames(response))
    async with agent.subscribe(first.event["task"]["id"], first.id) as response:
        rest = await all_frames(response)
    assert rest[-1].state == "COMPLETED"
    assert text_of([frame.event for frame in rest]) == "".join(f"{n} " for n in range(1, 21))
