"""CopilotKit's runtime contract, by its wire."""

from typing import Any

import httpx
import pytest

from headrace.model.events import Json
from tests.support.agui.runs import run_input, run_of
from tests.support.agui.scripts import AGENTS
from tests.support.event_stream import all_frames
from tests.support.scripted_fleet import Agents, ScriptedFleet

RUN = "/copilotkit/agent/assistant/run"


@pytest.fixture(scope="module")
def agents() -> Agents:
    return AGENTS


@pytest.fixture(scope="module")
def client_headers() -> dict[str, str]:
    return {}


async def test_info_lists_every_agent_and_no_others(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    received = (await http.get("/copilotkit/info")).json()
    assert {"assistant", "painter", "default"} <= received["agents"].keys()
    assert received["agents"]["assistant"]["capabilities"]["transport"]["websocket"] is True
    assert (received["mode"], received["audioFileTranscriptionEnabled"]) == ("sse", False)
    assert received["version"]


async def test_a_run_is_the_agents_ag_ui_run(http: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    body = run_input()
    async with http.stream("POST", RUN, json=body) as response:
        frames = [frame.json for frame in await all_frames(response)]
    assert (frames[0]["type"], frames[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    assert frames[0]["runId"] == body["runId"]
    assert len(fleet.runs) == 1


async def test_a_run_under_way_is_stopped_by_thread_and_run(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    stop = f"/copilotkit/agent/patient/stop/{body['threadId']}"
    async with http.stream("POST", "/copilotkit/agent/patient/run", json=body) as response:
        await run_of(fleet)
        other = (await http.post(stop, json={"runId": "other"})).json()
        assert other == {
            "stopped": False,
            "message": f"thread {body['threadId']} has no active run",
        }
        stopped = await http.post(stop, json={"runId": body["runId"]})
        assert stopped.json() == {"stopped": True}
        frames = [frame.json for frame in await all_frames(response)]
    assert frames[-1]["outcome"] == {"type": "cancelled"}
    assert (await http.post(stop)).json()["stopped"] is False


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/copilotkit/agent/nobody/run", run_input(), 404, "agent_unknown"),
        (RUN, {}, 400, "invalid_input"),
        ("/copilotkit/agent/assistant/connect", {"runId": "x"}, 400, "invalid_input"),
        ("/copilotkit/agent/assistant/stop/t", {"runId": 3}, 400, "invalid_input"),
        ("/copilotkit/agent/assistant/stop/t", [], 400, "invalid_input"),
        ("/copilotkit", {}, 400, "invalid_input"),
        ("/copilotkit", {"method": "agent/fly", "params": {"agentId": "x"}}, 400, "invalid_input"),
        ("/copilotkit", {"method": "agent/run"}, 400, "invalid_input"),
        ("/copilotkit", {"method": "agent/run", "params": 3}, 400, "invalid_input"),
        (
            "/copilotkit",
            {"method": "agent/stop", "params": {"agentId": "assistant"}},
            400,
            "invalid_input",
        ),
        (
            "/copilotkit",
            {
                "method": "agent/stop",
                # Larger than a message of the bus.
                "params": {"agentId": "assistant", "threadId": "x" * 2_000_000},
            },
            400,
            "invalid_input",
        ),
    ],
)
async def test_what_is_wrong_is_reported_before_a_stream_begins(
    http: httpx.AsyncClient,
    path: str,
    body: Any,  # noqa: ANN401
    status: int,
    code: str,
) -> None:
    answer = await http.post(path, json=body)
    output: Json = answer.json()
    assert (answer.status_code, output["error"]["code"]) == (status, code)
    assert output["message"] == output["error"]["message"]


async def test_what_is_no_json_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/copilotkit", content=b"{", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    sent = {"content": b"{", "headers": {"content-type": "application/json"}}
    assert (await http.post("/copilotkit", **sent)).status_code == 400  # type: ignore[arg-type]


async def test_capabilities_are_the_agents_own_over_the_fleets(http: httpx.AsyncClient) -> None:
    received = (await http.get("/v1/agents/assistant/ag-ui/capabilities")).json()
    assert received["identity"]["name"] == "assistant"
    assert received["multimodal"]["input"]["image"] is True
    assert (await http.get("/api/agent/capabilities")).json() == received
    assert (await http.get("/v1/agents/nobody/ag-ui/capabilities")).status_code == 404
