"""The official client drives every demo agent over every transport, and complains of nothing."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.model.events import Json
from headrace_dojo import agents
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.fleet import Fleet
from tests.support.stack import Stack

TRANSPORTS = ("sse", "binary", "ws")
PIXEL = {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}
PAGE = {"type": "url", "value": "https://example.com/a.pdf", "mimeType": "application/pdf"}


def tool(name: str) -> Json:
    return {"name": name, "description": name, "parameters": {"type": "object"}}


SCENES: dict[str, list[Json]] = {
    "echo": [{"text": "hello"}],
    "assistant": [{"text": "hello there"}],
    "counter": [{"text": "5"}],
    "agentic_chat": [
        {"text": "hi", "context": [{"description": "the user's name", "value": "Ada"}]},
        {"text": "a blue background", "tools": [tool("change_background")]},
        {"answer": "painted"},
    ],
    "agentic_generative_ui": [{"text": "a house"}],
    "background_activity": [{"text": "a report"}],
    "backend_tool_rendering": [{"text": "the weather in Oslo?"}],
    "error_flow": [{"text": "anything"}, {"text": "reject"}],
    "human_in_the_loop": [
        {"text": "a trip", "tools": [tool("generate_task_steps")]},
        {"answer": '{"accepted":true,"steps":[{"description":"Go","status":"enabled"}]}'},
    ],
    "interrupt": [
        {"text": "the launch"},
        {"resume": {"status": "resolved", "payload": {"approved": True}}},
        {"text": "another"},
        {"resume": {"status": "cancelled"}},
    ],
    "multimodal": [
        {
            "text": [
                {"type": "text", "text": "look here"},
                {"type": "image", "source": PIXEL},
                {"type": "document", "source": PAGE},
            ]
        }
    ],
    "orders": [
        {"text": "12 nails"},
        {"resume": {"status": "resolved", "payload": {"ship": True}}},
        {"text": "5 screws"},
    ],
    "predictive_state_updates": [{"text": "a dragon"}, {"answer": '{"accepted":true}'}],
    "planner": [{"text": "watermills"}],
    "research": [{"text": "watermills"}],
    "researcher": [{"text": "watermills: history"}],
    "writer": [{"text": "watermills\nThey turn."}],
    "reasoning": [{"text": "why is it so"}],
    "shared_state": [{"text": "basil"}],
    "stock": [{"text": "nails"}],
    "subagents": [{"text": "Oslo"}],
    "surfaces": [
        {"text": "Ann"},
        {"press": {"name": "book", "context": {"name": "Ann"}}},
    ],
    "tool_based_generative_ui": [
        {"text": "rain", "tools": [tool("generate_haiku")]},
        {"answer": "drawn"},
    ],
}
type Driven = Callable[[str], dict[str, Json]]

STATE: Json = {"recipe": {"title": "Soup", "ingredients": []}}


@pytest.fixture(scope="module")
def driven_over(stack: Stack) -> Iterator[Driven]:
    """Returns what the client holds of every scene, once it was driven over a transport."""

    @functools.cache
    def drive(transport: str) -> dict[str, Json]:
        url = stack.gateways[TRANSPORTS.index(transport) % 2]
        orders = [
            {
                "url": f"{url}/v1/agents/{agent}/ag-ui",
                "transport": transport,
                "state": STATE,
                "runs": runs,
            }
            for agent, runs in SCENES.items()
        ]
        return dict(zip(SCENES, script.run(orders), strict=True))

    with javascript.Script("drive.mjs") as script:
        yield drive


def kinds(run: Json) -> list[str]:
    return [event["type"] for event in run["events"]]


def texts(driven: Json) -> list[str]:
    outputs = [m for m in driven["messages"] if m["role"] == "assistant"]
    return [message["content"] for message in outputs if message.get("content")]


def outcomes(driven: Json) -> list[str]:
    return [run["events"][-1].get("outcome", {}).get("type", "") for run in driven["runs"]]


def test_there_is_a_scene_for_every_demo_agent() -> None:
    assert {agent.name for agent in agents} == set(SCENES)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_stream_keeps_every_rule(
    fleet: Fleet,
    driven_over: Driven,
    transport: str,
) -> None:
    assert len(fleet.gateways) == 2
    assert driven_over(transport).keys() == SCENES.keys()
    for agent, driven in driven_over(transport).items():
        assert driven["warnings"] == [], agent
        messages: list[Json] = []
        state: Any = STATE
        for number, (run, request) in enumerate(zip(driven["runs"], SCENES[agent], strict=True)):
            if agent != "error_flow":
                assert run["failure"] is None, agent
            if "text" in request:
                messages += [{"id": f"user-{number}", "role": "user", "content": request["text"]}]
            if "answer" in request:
                messages += [m for m in driven["messages"] if m["id"].endswith("-said")]
            client = Client(messages, state).take_all(run["events"])
            assert client.ended
            messages, state = client.messages, client.state
        assert messages == driven["messages"], agent
        assert state == driven["state"], agent


@pytest.mark.parametrize("transport", ["binary", "ws"])
async def test_every_transport_sends_the_same(
    fleet: Fleet,
    driven_over: Driven,
    transport: str,
) -> None:
    assert len(fleet.gateways) == 2
    assert driven_over(transport).keys() == SCENES.keys()
    for agent, driven in driven_over(transport).items():
        if agent == "research":
            continue  # three speak at a time, in any order
        expected = driven_over("sse")[agent]
        assert [kinds(run) for run in driven["runs"]] == [kinds(run) for run in expected["runs"]]
        assert (texts(driven), driven["state"]) == (texts(expected), expected["state"])


async def test_each_shows_its_building_block(fleet: Fleet, driven_over: Driven) -> None:
    assert fleet.gateways
    received: dict[str, Json] = driven_over("sse")
    seen = {
        agent: {k for run in driven["runs"] for k in kinds(run)}
        for agent, driven in received.items()
    }
    assert texts(received["agentic_chat"])[1:] == ["Let me paint. ", "The background: painted"]
    assert "the user's name: Ada" in texts(received["agentic_chat"])[0]
    pending = received["agentic_chat"]["runs"][1]["events"][-1]["outcome"]["pendingToolCallIds"]
    assert len(pending) == 1
    steps = received["agentic_generative_ui"]["state"]["steps"]
    assert [step["status"] for step in steps] == ["completed"] * 5
    assert {"STATE_SNAPSHOT", "STATE_DELTA", "STEP_STARTED"} <= seen["agentic_generative_ui"]
    activity = next(
        m for m in received["background_activity"]["messages"] if m["role"] == "activity"
    )
    assert activity["content"]["percent"] == 100
    assert {"ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"} <= seen["background_activity"]
    assert "TOOL_CALL_RESULT" in seen["backend_tool_rendering"]
    [usage] = received["backend_tool_rendering"]["runs"][0]["events"][-1]["usage"]
    assert usage["model"] == "weather-1"
    ends = [run["events"][-1] for run in received["error_flow"]["runs"]]
    assert [end["code"] for end in ends] == ["failed", "rejected"]
    assert texts(received["human_in_the_loop"]) == ["Done: Go"]
    assert outcomes(received["interrupt"]) == ["interrupt", "", "interrupt", ""]
    assert texts(received["interrupt"])[1::2] == ["Approved: it is done.", "Never mind, then."]
    assert "image/png of 8 bytes" in texts(received["multimodal"])[0]
    assert outcomes(received["orders"]) == ["interrupt", "", ""]
    assert texts(received["orders"])[1:] == ["7 of 12 nails shipped.", "5 of 5 screws shipped."]
    assert received["predictive_state_updates"]["state"]["document"].startswith("# a dragon")
    custom = next(
        e for e in received["predictive_state_updates"]["runs"][0]["events"] if "name" in e
    )
    assert custom["name"] == "PredictState"
    assert {"REASONING_START", "REASONING_ENCRYPTED_VALUE"} <= seen["reasoning"]
    [basil] = received["shared_state"]["state"]["recipe"]["ingredients"]
    assert basil["name"] == "basil"
    assert texts(received["surfaces"])[-1] == "A table for Ann is booked."
    assert {"ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"} <= seen["surfaces"]
    assert {"SUBAGENT_STARTED", "SUBAGENT_FINISHED"} <= seen["subagents"]
    assert texts(received["subagents"])[-1].endswith("Have a good trip.")
    assert texts(received["tool_based_generative_ui"]) == ["I hope you like it."]
