"""A new protocol is a folder and a line in the table: the rest it gets as it is.

`tests/support/json_lines` is one; it touches nothing outside its folder.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.model.task import TaskKey
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json
from tests.support.module_loops import module_fixture
from tests.support.plain_http import NO_TLS
from tests.support.protocol_table import WITH_JSON_LINES
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

PATIENT = "/lines/patient"


@module_fixture
async def lines_gateway(settings: GatewaySettings, one_fleet: ScriptedFleet) -> AsyncIterator[str]:
    """The URL of a gateway that serves one protocol more."""
    assert one_fleet.working
    changes = {"http_port": ports.pick(), "grpc_port": 0, "keepalive": 0.5}
    async with running(settings.model_copy(update=changes), WITH_JSON_LINES) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def lines(lines_gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that gateway."""
    async with httpx.AsyncClient(base_url=lines_gateway, timeout=60, verify=NO_TLS) as client:
        yield client


@dataclass
class Reading:
    """The lines of one stream."""

    lines: AsyncIterator[str]
    silences: int = 0
    seen: list[Json] = field(default_factory=list)

    async def next(self) -> Json:
        """Return the next line that says something."""
        while not (line := await anext(self.lines)):
            self.silences += 1
        self.seen.append(json.loads(line))
        return self.seen[-1]

    async def rest(self) -> list[Json]:
        """Return what comes until the stream ends."""
        while True:
            try:
                await self.next()
            except StopAsyncIteration:
                return self.seen


@asynccontextmanager
async def reading(
    client: httpx.AsyncClient, method: str, path: str, **options: str
) -> AsyncIterator[Reading]:
    async with client.stream(method, path, **options) as response:  # type: ignore[arg-type]
        assert response.status_code == 200, await response.aread()
        yield Reading(response.aiter_lines())


def generations(seen: list[Json]) -> list[int]:
    return [int(one["cursor"].rpartition(":")[2]) for one in seen]


def task_of(first: Json) -> str:
    task: str = first["event"]["task"]["id"]
    return task


async def begun(client: httpx.AsyncClient) -> tuple[str, str]:
    """Begin a task that waits; return its id and the cursor of its first event."""
    async with reading(client, "POST", PATIENT, content="hello") as stream:
        first = await stream.next()
        while (await stream.next())["cursor"].rpartition(":")[2] != "3":
            pass
    return task_of(first), first["cursor"]


async def test_a_task_is_followed_from_its_first_event_to_its_last(
    lines: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    async with reading(lines, "POST", "/lines/assistant", content="hello") as stream:
        seen = await stream.rest()
    assert generations(seen) == [1, 2, 3, 4]
    assert seen[2]["event"]["artifactUpdate"]["artifact"]["parts"] == [{"text": "hello"}]


async def test_a_client_that_comes_back_gets_the_backlog_and_what_follows(
    lines: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task, cursor = await begun(lines)
    async with reading(lines, "GET", f"{PATIENT}/{task}?after={cursor}") as stream:
        await stream.next()
        fleet.runs[0].go_on.set()
        assert generations(await stream.rest()) == [2, 3, 4, 5]
    answer = await lines.get(f"{PATIENT}/{task}?after={cursor.partition(':')[0]}:5")
    assert answer.status_code == 204


async def test_a_silent_stream_is_kept_alive(
    lines: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with reading(lines, "POST", PATIENT, content="hello") as stream:
        while len(stream.seen) < 3:
            await stream.next()
        async with asyncio.timeout(60):
            assert not await anext(stream.lines), "an empty line"
        fleet.runs[0].go_on.set()
        assert generations(await stream.rest()) == [1, 2, 3, 4, 5]


async def test_a_lost_past_is_reported_and_the_current_task_comes_first(
    lines: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task, _ = await begun(lines)
    async with reading(lines, "GET", f"{PATIENT}/{task}?after=zzzzzzzz:2") as stream:
        first = await stream.next()
        fleet.runs[0].go_on.set()
        rest = (await stream.rest())[1:]
    assert (first["recovered"], task_of(first)) == (False, task)
    assert generations([first, *rest]) == [3, 4, 5]


async def test_a_log_that_is_purged_in_the_middle_is_an_interruption(
    lines: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    async with reading(lines, "POST", PATIENT, content="hello") as stream:
        task = task_of(await stream.next())
        while len(stream.seen) < 3:
            await stream.next()
        key = TaskKey("default", "patient", task)
        subject = bus.subjects.event(key)
        await bus.js.purge_stream(bus.streams.of_shard(key.shard), subject=subject)
        last = (await stream.rest())[-1]
    assert last["interrupted"] == "lost"
    fleet.runs[0].go_on.set()


async def test_canceling_ends_the_stream(lines: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    assert fleet.working
    async with reading(lines, "POST", PATIENT, content="hello") as stream:
        task = task_of(await stream.next())
        while len(stream.seen) < 3:
            await stream.next()
        answer = await lines.delete(f"{PATIENT}/{task}")
        last = (await stream.rest())[-1]
    assert answer.json()["state"] == "TASK_STATE_CANCELED"
    assert last["event"]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_gateway_that_stops_ends_the_stream_with_its_reason(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as client:
        async with running(changed, WITH_JSON_LINES) as url:
            opened = reading(client, "POST", f"{url}{PATIENT}", content="hello")
            stream = await opened.__aenter__()
            while len(stream.seen) < 3:
                await stream.next()
            ending = asyncio.create_task(stream.rest())
        last = (await ending)[-1]
        await opened.__aexit__(None, None, None)
    assert last["interrupted"] == "stopping"
    fleet.runs[0].go_on.set()


async def test_what_there_is_not_is_refused(lines: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    assert fleet.working
    unknown = await lines.get(f"{PATIENT}/0-{'a' * 32}")
    assert (unknown.status_code, list(unknown.json())) == (404, ["error"])
    assert (await lines.post("/lines/nobody", content="hello")).status_code == 404
