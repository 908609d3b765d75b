"""The official AG-UI client, given nothing but an agent's URL."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support import javascript
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.slow_counter import COUNT
from tests.support.stored_log import events_of
from tests.support.waiting import eventually

type Json = dict[str, Any]


type Drive = Callable[..., Json]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run the client and return what it holds in the end; it had nothing to complain of."""
    with javascript.Script("drive.mjs") as script:

        def driven(url: str, agent: str, *runs: Json, **more: Any) -> Json:  # noqa: ANN401
            order = {"url": f"{url}/v1/agents/{agent}/ag-ui", "runs": runs, **more}
            held: Json = script.run(order)
            assert held["warnings"] == []
            return held

        yield driven


def kinds(run: Json) -> list[str]:
    return [event["type"] for event in run["events"]]


async def test_the_assistant_thinks_calls_a_tool_and_answers(fleet: Fleet, drive: Drive) -> None:
    driven = drive(fleet.gateways[0], "assistant", {"text": "hello there"})
    [run] = driven["runs"]
    assert run["failure"] is None
    assert (kinds(run)[0], kinds(run)[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    user, thought, caller, result, answer, file = driven["messages"]
    assert user["content"] == "hello there"
    assert thought["role"] == "reasoning"
    assert caller["toolCalls"][0]["function"]["name"] == "count_words"
    assert (result["role"], result["content"]) == ("tool", '{"words":2}')
    assert answer["content"] == "You said 2 words: hello there"
    assert file["content"]["parts"][0]["filename"] == "summary.md"


async def test_chunks_arrive_as_they_are_made(fleet: Fleet, drive: Drive) -> None:
    [run] = drive(fleet.gateways[1], "counter", {"text": "5 20"})["runs"]
    deltas = [event["delta"] for event in run["events"] if "delta" in event]
    assert deltas == ["1 ", "2 ", "3 ", "4 ", "5 "]
    times = [event["timestamp"] for event in run["events"]]
    assert times == sorted(times)
    assert times[-1] - times[0] >= 60


async def test_an_input_that_an_agent_does_not_take_is_an_error_of_the_run(
    fleet: Fleet, drive: Drive
) -> None:
    [run] = drive(fleet.gateways[0], "counter", {"text": "many"})["runs"]
    last = run["events"][-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "rejected")
    assert "N [delay_ms]" in last["message"]


async def test_a_thread_takes_one_run_after_the_other(
    fleet: Fleet, http: httpx.AsyncClient, drive: Drive
) -> None:
    runs = [{"text": text} for text in ("one", "two", "three")]
    driven = drive(fleet.gateways[0], "echo", *runs)
    outputs = [message["content"] for message in driven["messages"]]
    assert outputs == ["one", "one", "two", "two", "three", "three"]
    agent = PlainAgent(http, fleet.gateways[1], "echo")
    listed = (await agent.list(contextId=driven["threadId"])).json()
    assert listed["totalSize"] == 3


@pytest.mark.usefixtures("extra_worker")
async def test_a_client_that_leaves_does_not_end_the_run(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path, drive: Drive
) -> None:
    thread, gate = str(uuid4()), tmp_path / "gate"
    leaving = {"text": str(gate), "leaveAfter": "TEXT_MESSAGE_CONTENT"}
    [run] = drive(fleet.gateways[0], "gated", leaving, threadId=thread)["runs"]
    assert [event["delta"] for event in run["events"] if "delta" in event] == ["before "]
    agent = PlainAgent(http, fleet.gateways[1], "gated")
    gate.touch()

    async def is_completed() -> bool:
        [task] = (await agent.list(contextId=thread)).json()["tasks"]
        return bool(task["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(is_completed, "the task is completed")


async def test_a_killed_workers_run_is_finished_by_another(
    fleet: Fleet, http: httpx.AsyncClient, slow_counters: list[ServiceProcess], drive: Drive
) -> None:
    thread = str(uuid4())
    driving = asyncio.create_task(
        asyncio.to_thread(drive, fleet.gateways[0], "slow-counter", {"text": "go"}, threadId=thread)
    )
    kill_holder(slow_counters, await worker_of(fleet, http, thread))
    driven = await driving
    [run] = driven["runs"]
    attempts = [event for event in run["events"] if event["type"] == "CUSTOM"]
    assert [event["value"] for event in attempts] == [{"attempt": 2}]
    assert kinds(run)[-1] == "RUN_FINISHED"
    outputs = [message["content"] for message in driven["messages"]]
    assert outputs == ["go", "".join(f"{number} " for number in range(1, COUNT + 1))]


async def worker_of(fleet: Fleet, http: httpx.AsyncClient, thread: str) -> str:
    """Return the id of the worker that counts for `thread`, once it has counted a bit."""
    agent, workers = PlainAgent(http, fleet.gateways[1], "slow-counter"), list[str]()

    async def has_counted() -> bool:
        for task in (await agent.list(contextId=thread)).json()["tasks"]:
            events = await events_of(fleet.nats_url, "slow-counter", task["id"])
            metadata = [event.get("statusUpdate", {}).get("metadata", {}) for event in events]
            workers[:] = [
                outputs["headrace.worker"] for outputs in metadata if "headrace.worker" in outputs
            ]
            return len(events) > 5
        return False

    await eventually(has_counted, "the counter counts")
    return workers[0]


def kill_holder(workers: list[ServiceProcess], name: str) -> None:
    """Kill the worker of that name, with which its own first line begins."""
    [holder] = [worker for worker in workers if f"{name} serves " in worker.log.read_text()]
    holder.kill()


async def test_an_unknown_agent_fails_the_run_with_a_reason(fleet: Fleet) -> None:
    order = {"url": f"{fleet.gateways[0]}/v1/agents/nobody/ag-ui", "runs": [{"text": "hello"}]}
    [run] = javascript.run("drive.mjs", order)["runs"]
    assert run["failure"]["status"] == 404
    assert run["failure"]["body"]["error"]["code"] == "agent_unknown"
    assert run["events"] == []
