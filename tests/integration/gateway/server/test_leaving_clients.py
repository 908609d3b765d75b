"""Clients that leave at once: what they asked of a task is done, and others are not disturbed."""

import asyncio
import json

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.events import Json
from headrace.model.task import CANCELED, TaskKey
from tests.support.clients.bindings import Rest, message
from tests.support.clients.websocket import connect
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

TASKS = 30
PATH = "/v1/agents/patient"


async def state(bus: Bus, task: str) -> str:
    last = await last_entry(bus, TaskKey("default", "patient", task))
    return "" if last is None else last.stamp.state


async def begun(http: httpx.AsyncClient, fleet: ScriptedFleet) -> list[str]:
    """Return tasks that their agent is at work on."""
    params = message() | {"configuration": {"returnImmediately": True}}
    sending = (Rest(http, "patient").call("SendMessage", params) for _ in range(TASKS))
    tasks = [answer["task"]["id"] for answer in await asyncio.gather(*sending)]

    async def all_at_work() -> bool:
        return {run.key.task for run in fleet.runs} >= set(tasks)

    await eventually(all_at_work, "every task is at work")
    return tasks


async def says_and_leaves(url: str, frame: Json, *, after: float) -> None:
    """Send one frame over a WebSocket, and tear the connection down."""
    target = url.replace("http://", "ws://") + f"{PATH}/stream"
    connection = await connect(target)
    await connection.send(json.dumps(frame))
    await asyncio.sleep(after)
    connection.transport.abort()


@pytest.mark.parametrize("after", [0.0, 0.005])
async def test_what_is_canceled_over_a_websocket_ends_though_its_client_leaves(
    gateway: str, http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus, after: float
) -> None:
    tasks = await begun(http, fleet)
    await asyncio.gather(
        *(
            says_and_leaves(
                gateway,
                {"jsonrpc": "2.0", "id": "c", "method": "CancelTask", "params": {"id": task}},
                after=after,
            )
            for task in tasks
        )
    )

    async def are_over() -> bool:
        return {await state(bus, task) for task in tasks} == {CANCELED}

    await eventually(are_over, "every task is canceled")


async def test_what_is_sent_over_a_websocket_is_worked_on_though_its_client_leaves(
    gateway: str, fleet: ScriptedFleet, bus: Bus
) -> None:
    before = await stored(bus)
    await asyncio.gather(
        *(
            says_and_leaves(gateway, {"id": "s", "send": message(f"left {number}")}, after=0.002)
            for number in range(TASKS)
        )
    )

    async def all_begun() -> bool:
        tasks = await stored(bus) - before
        return bool(tasks) and tasks <= {run.key.task for run in fleet.runs}

    # There is no sweep in this fleet: the gateway alone asks workers for what it has stored.
    await eventually(all_begun, "whatever is stored is worked on")


async def stored(bus: Bus) -> set[str]:
    """Return every task that has a log."""
    filtered = f"{bus.subjects.prefix}.event.>"
    info = await bus.js.stream_info(bus.streams.events(0), subjects_filter=filtered)
    return {bus.subjects.key_of_event(subject).task for subject in info.state.subjects or {}}
