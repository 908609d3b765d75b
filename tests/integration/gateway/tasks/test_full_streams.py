"""A stream at its limit: new tasks are refused, and who waits for one that was taken in is told."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.model.entry import Stamp
from headrace.model.task import COMPLETED, TaskKey, mint_log_id, mint_task_id
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.clients.bindings import Talk, message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"events_max_bytes": 100_000})


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    return GatewayTiming(full_stream=0.2)


@pytest_asyncio.fixture(loop_scope="module")
async def full(bus: Bus) -> AsyncIterator["Filling"]:
    filling = Filling(bus)
    yield filling
    await bus.js.purge_stream(bus.streams.events(0))


class Filling:
    """Fills the stream with logs of nobody's."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def fill(self) -> None:
        for size in (20_000, 500, 0):
            key = TaskKey("default", "filler", mint_task_id(3))
            headers = Stamp(mint_log_id(), 1, "filler", COMPLETED, 1, owner="nobody").headers()
            body = b'{"task":{"id":"%b"}}' % (b"x" * size)
            subject = self.bus.subjects.event(key)
            while b"error" not in (await self.bus.request(subject, body, 30, headers)).data:
                pass


async def test_a_new_task_is_refused_with_retry_after(json_talk: Talk, full: Filling) -> None:
    await full.fill()
    refusal = await json_talk.refused("SendMessage", message("hello"))
    assert refusal.status == 503
    assert "is full" in refusal.text
    assert refusal.headers["Retry-After"]


async def test_a_gateway_whose_message_was_refused_is_degraded(
    json_talk: Talk, http: httpx.AsyncClient, bus: Bus, full: Filling
) -> None:
    await full.fill()
    await json_talk.refused("SendMessage", message("hello"))
    ready = (await http.get("/readyz")).json()
    assert (ready["status"], ready["note"]) == ("degraded", f"{bus.streams.events(0)} is full")


async def test_a_client_that_waits_for_a_new_task_is_informed(
    json_talk: Talk, fleet: ScriptedFleet, full: Filling
) -> None:
    agent = json_talk.to("patient")
    sending = asyncio.create_task(agent.send("SendMessage", message("hello")))

    async def works() -> bool:
        return bool(fleet.runs)

    await eventually(works, "the agent works")
    await full.fill()
    answer = await asyncio.wait_for(sending, 60)
    assert answer.status_code == 503
    assert "is full" in answer.text
    assert fleet.runs[0].key.task in answer.text
    assert "Retry-After" not in answer.headers
