"""The official client's run is stopped while it reads it; its thread goes on."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.fleet import Fleet

ENDLESS = "1000000 50"
"""What the counter counts until somebody stops it."""


type Drive = Callable[..., Json]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run the client with the counter and return what it holds; it had nothing to complain of."""
    with javascript.Script("drive.mjs") as script:

        def driven(url: str, *runs: Json, **more: Any) -> Json:  # noqa: ANN401
            order = {"url": f"{url}/v1/agents/counter/ag-ui", "runs": runs, **more}
            held: Json = script.run(order)
            assert held["warnings"] == []
            return held

        yield driven


def said(driven: Json) -> list[str]:
    return [message["content"] for message in driven["messages"]]


@pytest.mark.parametrize("transport", ["sse", "binary", "ws"])
async def test_it_sees_the_run_cancelled_and_runs_the_next_one(
    fleet: Fleet, transport: str, drive: Drive
) -> None:
    here, there = fleet.gateways
    runs = [{"text": ENDLESS, "stopAt": "TEXT_MESSAGE_CONTENT"}, {"text": "3"}]
    elsewhere = f"{there}/v1/agents/counter/ag-ui"
    driven = drive(here, *runs, transport=transport, stopUrl=elsewhere)
    stopped, after = driven["runs"]
    assert (stopped["failure"], after["failure"]) == (None, None)
    run = stopped["events"][0]["runId"]
    assert stopped["stopped"] == {"threadId": driven["threadId"], "runId": run, "stopped": True}
    assert stopped["events"][-1]["outcome"] == {"type": "cancelled"}
    message = [{"id": "user-0", "role": "user", "content": ENDLESS}]
    assert Client(message, {}).take_all(stopped["events"]).ended
    question, counted, *rest = said(driven)
    assert (question, rest) == (ENDLESS, ["3", "1 2 3 "])
    numbers = counted.split()
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert "outcome" not in after["events"][-1]


@pytest.mark.parametrize("client", ["0.0.53", "0.0.59"])
async def test_a_client_of_0x_sees_the_run_finished(
    fleet: Fleet, client: str, drive: Drive
) -> None:
    runs = [{"text": ENDLESS, "stopAt": "TEXT_MESSAGE_CONTENT"}, {"text": "3"}]
    driven = drive(fleet.gateways[0], *runs, client=client)
    stopped, after = driven["runs"]
    assert (stopped["failure"], after["failure"]) == (None, None)
    assert stopped["stopped"]["stopped"] is True
    assert stopped["events"][-1]["type"] == "RUN_FINISHED"
    assert "outcome" not in stopped["events"][-1]
    assert said(driven)[2:] == ["3", "1 2 3 "]


async def test_leaving_stops_nothing_and_the_threads_newest_run_can_be_stopped_later(
    fleet: Fleet, http: httpx.AsyncClient, drive: Drive
) -> None:
    here, there = (f"{gateway}/v1/agents/counter" for gateway in fleet.gateways)
    thread = str(uuid4())
    leaving = {"text": ENDLESS, "leaveAfter": "TEXT_MESSAGE_CONTENT"}
    [left] = drive(fleet.gateways[0], leaving, threadId=thread)["runs"]
    assert "outcome" not in left["events"][-1]

    async def states() -> list[str]:
        listed = (await http.get(f"{here}/tasks", params={"contextId": thread})).json()["tasks"]
        return [task["status"]["state"] for task in listed]

    assert await states() == ["TASK_STATE_WORKING"]
    answer = (await http.post(f"{there}/ag-ui/stop", json={"threadId": thread})).json()
    assert (answer["threadId"], answer["stopped"]) == (thread, True)
    assert await states() == ["TASK_STATE_CANCELED"]
    driven = drive(fleet.gateways[0], {"text": "2"}, threadId=thread)
    assert said(driven) == ["2", "1 2 "]


async def test_a_run_that_is_over_is_not_stopped(fleet: Fleet, drive: Drive) -> None:
    [run] = drive(fleet.gateways[0], {"text": "3", "stopAt": "RUN_FINISHED"})["runs"]
    assert run["stopped"]["stopped"] is False
