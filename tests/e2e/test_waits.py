"""Runs that wait go on once, whichever service is killed between their wait and their event."""

import asyncio
import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import nats
import nats.errors

from headrace import Agents
from headrace_cli.dev.dev_file import Role
from tests.integration.task_state.webhooks.test_waits_for_ends import reader
from tests.integration.triggers.test_waits_for_events import clerk
from tests.integration.worker.test_webhooks_of_runs import forgetful
from tests.support import extra_services
from tests.support.compose_file import ROOT
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.waiting import eventually, until

TARGET = "tests.e2e.test_waits:agents"
ROLES: tuple[Role, ...] = ("nats", "task-state", "gateway", "redis")
STREAM = "awaited-orders"

agents = Agents([forgetful, reader, clerk])


async def waiting(agent: PlainAgent) -> tuple[str, str]:
    """Return a task that waits, and its webhook's URL."""
    answer = await agent.send("hi", returnImmediately=True)
    task = answer.json()["task"]["id"]

    async def tells_url() -> str | None:
        shown: dict[str, Any] = (await agent.get(task)).json()
        artifacts = shown.get("artifacts") or []
        return str(artifacts[0]["parts"][0]["text"]) if artifacts else None

    return task, (await eventually(tells_url, "the task tells its URL")).strip()


async def result(agent: PlainAgent, task: str) -> str:
    """Return the text of a task's artifacts, once it is completed."""

    async def is_over() -> dict[str, Any] | None:
        shown: dict[str, Any] = (await agent.get(task)).json()
        state = shown.get("status", {}).get("state")
        return shown if state == "TASK_STATE_COMPLETED" else None

    shown = await eventually(is_over, f"task {task} has ended")
    return "".join(p["text"] for one in shown["artifacts"] for p in one["parts"])


async def begun(agent: PlainAgent, text: str) -> str:
    """Return a task that is begun, whichever service is away at first."""

    async def task() -> str | None:
        with suppress(httpx.TransportError):
            answer = await agent.send(text, returnImmediately=True)
            if answer.status_code == httpx.codes.OK:
                return str(answer.json()["task"]["id"])
        return None

    return await eventually(task, "a task is begun")


async def called(http: httpx.AsyncClient, url: str) -> int | None:
    """Return the status of a call of a webhook; None: it has no answer yet."""
    try:
        status = (await http.post(url, content=b"paid")).status_code
    except httpx.TransportError:
        return None
    return None if status == httpx.codes.SERVICE_UNAVAILABLE else status


def serving(fleet: Fleet, folder: Path) -> ServiceProcess:
    """Return a worker that serves the agents."""
    environment = {
        "HEADRACE_NATS_URL": fleet.nats_url,
        "HEADRACE_PUBLIC_URL": fleet.gateways[0],
        "PYTHONPATH": str(ROOT),
    }
    return ServiceProcess("worker", folder, ["worker", TARGET], environment, lambda: True)


async def test_a_call_wakes_its_run_once_though_each_service_and_the_worker_were_killed(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    with serving(fleet, tmp_path) as worker:
        until(lambda: extra_services.is_served(fleet.gateways, "forgetful"), "the agent is there")
        agent = PlainAgent(http, fleet.gateways[0], "forgetful")
        tasks = [await waiting(agent) for _ in range(2 * len(ROLES))]
        await asyncio.to_thread(worker.kill)
        call = partial(called, http)
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
            assert (await result(agent, task)).splitlines() == [url, "paid"]


async def test_ends_and_events_wake_runs_once_though_each_service_and_the_worker_were_killed(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    roles: tuple[Role, ...] = (*ROLES, "triggers")
    bus = await nats.connect(fleet.nats_url, max_reconnect_attempts=-1)
    await bus.jetstream().add_stream(name=STREAM, subjects=[f"{STREAM}.>"])
    with serving(fleet, tmp_path) as worker:
        until(lambda: extra_services.is_served(fleet.gateways, "clerk"), "the agents are there")
        callee, ends, events = (
            PlainAgent(http, fleet.gateways[0], name) for name in ("forgetful", "reader", "clerk")
        )
        awaited = [await waiting(callee) for _ in roles]
        readers, clerks = list[str](), list[str]()
        for number, (role, (task, _)) in enumerate(zip(roles, awaited, strict=True)):
            killed = asyncio.create_task(asyncio.to_thread(fleet.restart, role))
            readers.append(await begun(ends, task))
            source = {"subject": f"{STREAM}.*", "stream": STREAM, "match": {"body.id": number}}
            clerks.append(await begun(events, json.dumps(source)))
            await killed
        await asyncio.to_thread(worker.kill)
        worker.start()

        async def publish_all() -> None:
            """Publish the events again and again: one may come before its wait."""
            while True:
                for number in range(len(roles)):
                    with suppress(nats.errors.Error, OSError):
                        body = json.dumps({"id": number}).encode()
                        await bus.jetstream().publish(f"{STREAM}.created", body)
                await asyncio.sleep(0.5)

        publishing = asyncio.create_task(publish_all())
        for role, (_, url) in zip(roles, awaited, strict=True):
            killed = asyncio.create_task(asyncio.to_thread(fleet.restart, role))
            await eventually(partial(called, http, url), "the call is answered")
            await killed
        for number, ((task, _), one, other) in enumerate(
            zip(awaited, readers, clerks, strict=True)
        ):
            assert (await result(ends, one)).startswith(f"{task} TASK_STATE_COMPLETED ")
            assert json.loads(await result(events, other))["body"] == {"id": number}
        publishing.cancel()
    await bus.close()
