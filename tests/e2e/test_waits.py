"""Runs that wait go on once, whichever service is killed between their wait and their event."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from headrace_cli.dev.dev_file import Role
from tests.support import extra_services
from tests.support.compose_file import ROOT
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.waiting import eventually, until

TARGET = "tests.integration.worker.test_webhooks_of_runs:forgetful"
ROLES: tuple[Role, ...] = ("nats", "task-state", "gateway", "redis")


async def waiting(agent: PlainAgent) -> tuple[str, str]:
    """Return a task that waits, and its webhook's URL."""
    answer = await agent.send("hi", returnImmediately=True)
    task = answer.json()["task"]["id"]

    async def tells_url() -> str | None:
        shown: dict[str, Any] = (await agent.get(task)).json()
        artifacts = shown.get("artifacts") or []
        return str(artifacts[0]["parts"][0]["text"]) if artifacts else None

    return task, (await eventually(tells_url, "the task tells its URL")).strip()


async def test_a_call_wakes_its_run_once_though_each_service_and_the_worker_were_killed(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    environment = {
        "HEADRACE_NATS_URL": fleet.nats_url,
        "HEADRACE_PUBLIC_URL": fleet.gateways[0],
        "PYTHONPATH": str(ROOT),
    }
    worker = ServiceProcess("worker", tmp_path, ["worker", TARGET], environment, lambda: True)
    with worker:
        until(lambda: extra_services.is_served(fleet.gateways, "forgetful"), "the agent is there")
        agent = PlainAgent(http, fleet.gateways[0], "forgetful")
        tasks = [await waiting(agent) for _ in range(2 * len(ROLES))]
        await asyncio.to_thread(worker.kill)

        async def call(url: str) -> int | None:
            try:
                status = (await http.post(url, content=b"paid")).status_code
            except httpx.TransportError:
                return None
            return None if status == httpx.codes.SERVICE_UNAVAILABLE else status

        for role, before, after in zip(ROLES, tasks[::2], tasks[1::2], strict=True):
            killed = asyncio.create_task(asyncio.to_thread(fleet.restart, role))
            statuses = {await eventually(partial(call, before[1])), 202}
            # 409: the call before had no answer.
            assert statuses <= {202, 409}
            await killed
            assert await eventually(partial(call, after[1])) == 202
            assert await eventually(partial(call, after[1])) == 409
        await fleet.until_whole()
        worker.start()
        for task, url in tasks:

            async def is_over(task: str = task) -> dict[str, Any] | None:
                shown: dict[str, Any] = (await agent.get(task)).json()
                state = shown.get("status", {}).get("state")
                return shown if state == "TASK_STATE_COMPLETED" else None

            shown = await eventually(is_over, f"task {task} has ended")
            text = "".join(p["text"] for one in shown["artifacts"] for p in one["parts"])
            assert text.splitlines() == [url, "paid"]
