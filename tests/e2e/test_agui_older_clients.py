"""0.x clients drive every demo agent: they are told what they know, and complain of nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.model.events import Json
from tests.e2e.test_agui_demo_agents import SCENES, STATE, kinds, texts
from tests.support import javascript
from tests.support.fleet import Fleet

MODERN = {"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR", "RAW"}
"""Kinds of event that 0.x does not know, or did not ask for."""
NO_RESUME = "0.0.53"
"""The client that can't answer interrupts."""
ASKING = {"interrupt", "orders"}
"""Agents whose runs end with interrupts, which are outcomes."""


type Drive = Callable[..., dict[str, Json]]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run a client of that version with each agent's scenes; return what it holds, by agent."""
    with javascript.Script("drive.mjs") as script:

        def driven(
            url: str, client: str, scenes: dict[str, list[Json]], query: str = ""
        ) -> dict[str, Json]:
            orders = [
                {
                    "url": f"{url}/v1/agents/{agent}/ag-ui{query}",
                    "client": client,
                    "state": STATE,
                    "runs": runs,
                }
                for agent, runs in scenes.items()
            ]
            return dict(zip(scenes, script.run(orders), strict=True))

        yield driven


def wanted(driven: Json, agent: str) -> bool:
    return all(run["failure"] is None for run in driven["runs"]) or agent == "error_flow"


@pytest.mark.parametrize("client", [NO_RESUME, "0.0.59"])
async def test_it_drives_every_demo_agent(fleet: Fleet, drive: Drive, client: str) -> None:
    scenes = {name: runs for name, runs in SCENES.items() if name not in ASKING}
    for agent, driven in drive(fleet.gateways[0], client, scenes).items():
        assert driven["warnings"] == [], agent
        assert wanted(driven, agent), (agent, [run["failure"] for run in driven["runs"]])
        events = [event for run in driven["runs"] for event in run["events"]]
        assert not {event["type"] for event in events} & MODERN, agent
        assert not any("usage" in event for event in events), agent
        outcomes: list[Any] = [event.get("outcome") for event in events]
        assert set(map(str, outcomes)) == {"None"}, agent
        assert all(event.get("delta", "x") for event in events), agent


async def test_0_0_59_resumes_interrupts(fleet: Fleet, drive: Drive) -> None:
    driven = drive(fleet.gateways[1], "0.0.59", {name: SCENES[name] for name in ASKING})
    assert all(wanted(one, agent) for agent, one in driven.items())
    assert texts(driven["interrupt"])[1::2] == ["Approved: it is done.", "Never mind, then."]
    assert texts(driven["orders"])[1:] == ["7 of 12 nails shipped.", "5 of 5 screws shipped."]


@pytest.mark.parametrize("by_query", [True, False])
@pytest.mark.parametrize("client", [NO_RESUME, "0.0.59"])
async def test_it_gets_thinking_and_raw_events_on_request(
    fleet: Fleet, drive: Drive, client: str, *, by_query: bool
) -> None:
    props = {"forwardedProps": {"headrace": {"thinking": True, "raw": True}}}
    scene = {"text": "why is it so", **({} if by_query else props)}
    query = "?thinking=true&raw=true" if by_query else ""
    driven = drive(fleet.gateways[0], client, {"reasoning": [scene]}, query)["reasoning"]
    [run] = driven["runs"]
    assert (run["failure"], driven["warnings"]) == (None, [])
    assert {"THINKING_START", "THINKING_TEXT_MESSAGE_CONTENT", "RAW"} <= {*kinds(run)}
    assert not any(kind.startswith("REASONING") for kind in kinds(run))
    assert [message["role"] for message in driven["messages"]] == ["user", "assistant"]
