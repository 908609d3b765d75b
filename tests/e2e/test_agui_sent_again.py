"""The official AG-UI client sends a run again whose gateway was killed: one run, whatever dies."""

import asyncio
from pathlib import Path

import httpx
import pytest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.fleet import Fleet
from tests.support.resuming_sizes import IS_SOAK
from tests.support.stored_log import events_of
from tests.support.waiting import eventually

AGENT = "/v1/agents/counter"


@pytest.mark.soak
@pytest.mark.parametrize("pause", [0.0, 0.01, 0.1] if IS_SOAK else [0.0])
async def test_a_run_whose_gateway_was_killed_is_joined_by_a_repeated_request(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path, pause: float
) -> None:
    sent = tmp_path / "sent"
    here, there = fleet.gateways
    order = {
        "url": f"{here}{AGENT}/ag-ui",
        "other": f"{there}{AGENT}/ag-ui",
        "text": "40 100",  # It lasts longer than a kill takes.
        "sent": str(sent),
        "times": 3,
    }
    driving = asyncio.create_task(asyncio.to_thread(javascript.run, "retry.mjs", order))

    async def is_sent() -> bool:
        return sent.exists()

    await eventually(is_sent, "the run is on its way")
    await asyncio.sleep(pause)
    await asyncio.to_thread(fleet.restart, "gateway", 0)
    held: Json = await driving
    first, *again = held["runs"]
    assert "RUN_FINISHED" not in {event["type"] for event in first["events"]}
    assert len(again) == 3
    for run in again:
        assert (run["failure"], run["events"]) == (None, again[0]["events"])
    kinds = [event["type"] for event in again[0]["events"]]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert kinds.count("RUN_STARTED") == 1
    assert held["warnings"] == []
    # Whatever the killed one began would be in the thread too.
    listed = await http.get(f"{there}{AGENT}/tasks", params={"contextId": held["threadId"]})
    [task] = listed.json()["tasks"]
    events = await events_of(fleet.nats_url, "counter", task["id"])
    assert sum("task" in event for event in events) == 1
    await fleet.until_whole()
