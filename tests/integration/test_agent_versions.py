"""Two versions of an agent side by side: which one gets a task, and which one keeps it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from click.testing import CliRunner, Result
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc import aio
from prometheus_client import REGISTRY

from headrace import Agent, Agents, InputRequired, RunContext, agent
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.model.events import Json
from headrace.model.task import COMPLETED, FAILED, WORKING
from headrace.testing.state import MemoryTaskState
from headrace_cli.main import main
from headrace_gateway.settings import GatewaySettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.waiting import eventually

CARD = "/v1/agents/shop/.well-known/agent-card.json"
CANARY = {"X-Canary": "yes"}


def shop(version: str) -> Agent:
    @agent(name="shop", version=version, pinned=True)
    async def shop(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
        """Say which version answers; asked to wait, ask first, and sleep if told so."""
        if ctx.prompt == "ask":
            yield InputRequired("Well?")
            return
        if ctx.prompt == "fail":
            raise ValueError(version)
        if ctx.prompt == "delegate":
            yield (await ctx.delegate("shop", "child")).text
            return
        if ctx.prompt == "consult":
            yield (await ctx.delegate("shop", "ask")).ask_user()
            return
        if ctx.prompt == "answer the child":
            yield (await ctx.reply(message="hi")).text
            return
        if ctx.prompt == "sleep":
            yield version
            await asyncio.sleep(0 if ctx.attempt > 1 else 600)
            return
        yield version

    return shop


class Fleet:
    """A gateway, task state, and workers of versions."""

    def __init__(self, settings: GatewaySettings, http: httpx.AsyncClient, bus: Bus) -> None:
        self.settings, self.http, self.bus = settings, http, bus
        self.directory = Directory(bus)

    @asynccontextmanager
    async def serving(self, version: str) -> AsyncIterator[Worker]:
        names = {"prefix": self.settings.prefix, "stream_prefix": self.settings.stream_prefix}
        given = {"nats_url": self.settings.nats_url, "drain_seconds": 0, **names}
        worker = Worker(WorkerSettings.model_validate(given), Agents([shop(version)]))
        await worker.start()
        try:
            await self.known(version)
            yield worker
        finally:
            await worker.stop()

    async def known(self, version: str) -> None:
        """Return when the gateway knows a worker of the version."""
        await eventually(partial(self._is_known, version), f"version {version} is known")

    async def _is_known(self, version: str) -> bool:
        found = (await self.http.get("/v1/fleet/agents/shop/versions")).json()
        known = {one["version"]: one["workers"] for one in found.get("versions", [])}
        return bool(known.get(version))

    async def send(
        self, text: str, headers: dict[str, str] | None = None, *, waits: bool = True, **more: str
    ) -> Json:
        message = {"role": "ROLE_USER", "messageId": str(uuid4()), "parts": [{"text": text}]}
        body = {"message": message | more, "configuration": {"returnImmediately": not waits}}
        answer = await self.http.post("/v1/agents/shop/message:send", json=body, headers=headers)
        assert answer.is_success, answer.text
        task: Json = answer.json()["task"]
        return task

    async def state(self, task: Json) -> str:
        found = await self.http.get(f"/v1/agents/shop/tasks/{task['id']}")
        return str(found.json()["status"]["state"])

    async def until(self, task: Json, state: str) -> Json:
        """Return the task when it has that state."""

        async def reached() -> bool:
            return await self.state(task) == state

        await eventually(reached, state)
        found: Json = (await self.http.get(f"/v1/agents/shop/tasks/{task['id']}")).json()
        return found

    async def route(self, version: str, **rule: object) -> None:
        """Change the route, and return when the gateway has it."""
        before = await self.shown_route()
        body = {"version": version, **rule}
        answer = await self.http.post("/v1/fleet/agents/shop:route", json=body)
        assert answer.is_success, answer.text
        await self.settled(before)

    async def settled(self, before: object) -> None:
        async def changed() -> bool:
            return await self.shown_route() != before

        await eventually(changed, "the gateway has the route")

    async def shown_route(self) -> object:
        answer = await self.http.get("/v1/fleet/agents/shop/versions")
        assert answer.is_success, answer.text
        found = answer.json()
        return [{**one, "workers": [], "openTasks": 0} for one in found["versions"]]

    async def headrace(self, *words: str) -> Result:
        environment = {
            "HEADRACE_NATS_URL": self.settings.nats_url,
            "HEADRACE_PREFIX": self.settings.prefix,
            "HEADRACE_STREAM_PREFIX": self.settings.stream_prefix,
        }
        return await asyncio.to_thread(CliRunner().invoke, main, [*words], env=environment)


def text_of(task: Json) -> str:
    return "".join(part["text"] for one in task["artifacts"] for part in one["parts"])


@pytest.fixture
async def fleet(nats_server: NatsProcess) -> AsyncIterator[Fleet]:
    settings = own_settings(nats_server.url, allow_anonymous=True)
    bus = Bus(settings)
    async with running(settings) as url:
        await bus.connect("test")
        fleet = Fleet(settings, httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS), bus)
        await fleet.directory.start()
        state = MemoryTaskState(bus, fleet.directory)
        await state.start()
        async with fleet.http:
            yield fleet
        await state.stop()
        await fleet.directory.stop()
        await bus.close()


async def test_a_new_version_gets_the_tasks_that_the_route_gives_it(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        assert {text_of(await fleet.send("hi")) for _ in range(5)} == {"1"}
        await fleet.route("2", headers={"x-canary": "yes"})
        by_header = text_of(await fleet.send("hi", CANARY)), text_of(await fleet.send("hi"))
        assert by_header == ("2", "1")
        cards = [(await fleet.http.get(CARD, headers=h)).json()["version"] for h in (CANARY, {})]
        assert cards == ["2", "1"]
        # A cache between them must not give one client's card to the other.
        varies = (await fleet.http.get(CARD)).headers["vary"].split(", ")
        assert varies == ["Accept", *(name.lower() for name in CANARY)]
        await fleet.route("2", percent=50)
        contexts = [f"context-{number}" for number in range(40)]
        first = [text_of(await fleet.send("hi", contextId=one)) for one in contexts]
        assert set(first) == {"1", "2"}
        assert [text_of(await fleet.send("hi", contextId=one)) for one in contexts[:8]] == first[:8]
        await fleet.route("2", tenants=["default"])
        assert text_of(await fleet.send("hi")) == "2"


def failed(version: str) -> float:
    """Return how many runs of the version have failed in this process."""
    labels = {"agent": "shop", "version": version, "state": FAILED}
    return REGISTRY.get_sample_value("headrace_runs_ended_total", labels) or 0


async def test_the_failures_of_a_version_are_counted_apart(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        await fleet.route("2", headers={"x-canary": "yes"})
        before = failed("1"), failed("2")
        tasks = [await fleet.send("fail", CANARY), await fleet.send("hi")]
        assert [await fleet.state(task) for task in tasks] == [FAILED, COMPLETED]
        assert (failed("1"), failed("2")) == (before[0], before[1] + 1)


async def test_metadata_chooses_the_version_over_grpc(fleet: Fleet) -> None:
    message = {"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hi"}]}}
    request = ParseDict(message, a2a_pb2.SendMessageRequest())
    canary = tuple((name.lower(), value) for name, value in CANARY.items())
    address = f"127.0.0.1:{fleet.settings.grpc_port}"
    async with fleet.serving("1"), fleet.serving("2"), aio.insecure_channel(address) as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        await fleet.route("2", headers=CANARY)
        answers = [
            await stub.SendMessage(request, metadata=(("agent-name", "shop"), *more), timeout=60)
            for more in (canary, ())
        ]
    assert [text_of(MessageToDict(answer.task)) for answer in answers] == ["2", "1"]


async def test_a_task_stays_with_the_version_that_began_it(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        waiting = await fleet.send("ask")
        await fleet.route("2")
        assert text_of(await fleet.send("hi")) == "2"
        answered = await fleet.send("hi", taskId=waiting["id"], contextId=waiting["contextId"])
        assert text_of(answered) == "1"
        assert answered["metadata"]["headrace.version"] == "1"


async def test_a_child_of_the_same_agent_stays_with_its_parents_version(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        await fleet.route("2", headers={"x-canary": "yes"})
        assert text_of(await fleet.send("delegate", CANARY)) == "2"
        assert text_of(await fleet.send("delegate")) == "1"


async def test_only_a_worker_of_its_version_takes_a_task_over(fleet: Fleet) -> None:
    async with fleet.serving("2"):
        async with fleet.serving("1") as dying:
            await fleet.route("1")
            begun = await fleet.send("sleep", waits=False)
            await fleet.until(begun, WORKING)
            await dying.abort()
            # Longer than the lease of a dead worker's run: the other version's worker is idle.
            await asyncio.sleep(6)
            assert await fleet.state(begun) == WORKING
        async with fleet.serving("1"):
            ended = await fleet.until(begun, COMPLETED)
        assert text_of(ended) == "1"


async def test_a_worker_that_reloads_its_agents_serves_the_new_version(fleet: Fleet) -> None:
    async with fleet.serving("1") as worker:
        assert text_of(await fleet.send("hi")) == "1"
        await worker.update(Agents([shop("2")]))
        await fleet.known("2")
        await fleet.route("2")
        assert text_of(await fleet.send("hi")) == "2"


async def test_a_rollback_is_one_command(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        await fleet.route("2")
        before = await fleet.shown_route()
        done = await fleet.headrace("agents", "rollback", "shop")
        assert done.output == "shop: new tasks go to version 1\n"
        await fleet.settled(before)
        assert text_of(await fleet.send("hi")) == "1"
        again = await fleet.headrace("agents", "rollback", "shop")
        assert (again.exit_code, again.output) == (
            1,
            "Error: agent shop has no version to return to\n",
        )


async def test_a_version_is_retired_when_no_task_is_open_with_it(fleet: Fleet) -> None:
    async with fleet.serving("1"), fleet.serving("2"):
        in_use = await fleet.headrace("agents", "retire", "shop", "1")
        assert "gets new tasks" in in_use.output
        waiting = await fleet.send("ask")
        await fleet.route("2")
        still = await fleet.headrace("agents", "retire", "shop", "1")
        assert "1 tasks are open with version '1'" in still.output
        listed = await fleet.headrace("agents", "versions", "shop")
        rows = [line.split() for line in listed.output.splitlines()]
        assert rows[1:] == [["1", "none", "1", "1"], ["2", "all", "others", "0", "1"]]
        before = await fleet.shown_route()
        moved = await fleet.headrace("agents", "retire", "shop", "1", "--move-to", "2")
        assert moved.output == (
            "shop: version 1 is retired; version 2 continues 1 tasks; "
            "stop its workers, of which 1 still run: each announces it again\n"
        )
        await fleet.settled(before)
        answer = await fleet.send("hi", taskId=waiting["id"], contextId=waiting["contextId"])
        assert text_of(answer) == "2"


async def test_a_child_of_a_retired_version_is_continued_by_the_other_one(fleet: Fleet) -> None:
    async with fleet.serving("2"):
        async with fleet.serving("1"):
            await fleet.route("1")
            waiting = await fleet.send("consult")
            await fleet.route("2")
            before = await fleet.shown_route()
            moved = await fleet.headrace("agents", "retire", "shop", "1", "--move-to", "2")
            assert "version 2 continues 2 tasks" in moved.output
            await fleet.settled(before)
        names = {"taskId": waiting["id"], "contextId": waiting["contextId"]}
        answer = await fleet.send("answer the child", **names, waits=False)
        assert text_of(await fleet.until(answer, COMPLETED)) == "2"


async def test_a_route_that_can_t_be_is_refused(fleet: Fleet) -> None:
    async with fleet.serving("1"):
        path = "/v1/fleet/agents/shop:route"
        bodies = [
            {"version": "9"},
            {"version": "1", "percent": 101},
            {"version": "1", "percent": 9},
        ]
        refused = [(await fleet.http.post(path, json=body)) for body in bodies]
        codes = [(one.status_code, one.json()["error"]["code"]) for one in refused]
        assert codes == [
            (404, "version_unknown"),
            (400, "invalid_input"),
            (409, "route_refused"),
        ]
