"""What was given up is tried again from the terminal, and clients find what came of it."""

import asyncio

import httpx
import pytest

from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.terminal import enter
from tests.support.waiting import eventually


def headrace(fleet: Fleet, *arguments: str) -> str:
    """Return what a command of an operator's says, who stands beside the stack's data."""
    done = enter(*arguments, HEADRACE_DATA_DIR=str(fleet.stack.data_dir))
    assert done.code == 0, done.err
    return done.out


@pytest.mark.usefixtures("extra_worker")
async def test_a_retried_run_is_a_task_of_the_same_client_and_context(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "flaky")
    failed = (await agent.send("please")).json()["task"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    of_it = ("--agent", "flaky", "--task", failed["id"])
    assert failed["id"] in await asyncio.to_thread(headrace, fleet, "dead", "list", *of_it)
    output = await asyncio.to_thread(headrace, fleet, "dead", "retry", "--all", *of_it, "--yes")
    task = output.split()[-1]

    async def is_completed() -> bool:
        found = (await agent.get(task)).json()
        return bool(found["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(is_completed, "the retried task is completed")
    found = (await PlainAgent(http, fleet.gateways[1], "flaky").get(task)).json()
    assert found["artifacts"][0]["parts"][0]["text"] == "Retried: please"
    assert found["metadata"]["headrace.retryOf"] == {"task": failed["id"], "generation": 1}
    listed = (await agent.list(contextId=failed["contextId"])).json()["tasks"]
    assert {each["id"] for each in listed} == {task, failed["id"]}
    assert (await agent.get(failed["id"])).json()["status"]["state"] == "TASK_STATE_FAILED"


async def test_a_task_is_failed_from_the_terminal_and_its_client_reads_why(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "counter")
    sent = (await agent.send("1000 100", returnImmediately=True)).json()["task"]
    why = ("--reason", "It counts too far")
    await asyncio.to_thread(headrace, fleet, "tasks", "fail", sent["id"], *why)
    status = (await agent.get(sent["id"])).json()["status"]
    assert status["state"] == "TASK_STATE_FAILED"
    assert status["message"]["parts"][0]["text"] == "It counts too far"
