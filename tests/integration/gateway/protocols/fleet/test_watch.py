"""Watching lists: who sees which changes, and when the list must be asked for again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model.messages import ListChanges, ListedTask
from headrace.model.subjects import encode_token
from headrace.model.task import COMPLETED, INPUT_REQUIRED, SUBMITTED, WORKING
from headrace_gateway.timing import GatewayTiming
from tests.integration.gateway.protocols.fleet.conftest import (
    FAQ,
    ONCALL,
    OPERATOR,
    OpenRoleGateway,
)
from tests.support.clients.bindings import Json
from tests.support.credentials import ANN, Person
from tests.support.event_stream import Frame, frames
from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

PATH = "/v1/agents/assistant/tasks:watch"
EVENTS = {"Accept": "text/event-stream"}
VERSION = {"A2A-Version": "1.0"}
MINE = ListedTask(
    tenant="default",
    agent="assistant",
    task="mine",
    owner="anonymous",
    context="c",
    state=WORKING,
    before=SUBMITTED,
)
_MARKS = count()


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    """Watchers are told to ask for their lists again nearly at once."""
    return GatewayTiming(list_spread=0.05)


class Watch:
    """An open stream."""

    def __init__(self, response: httpx.Response, bus: Bus, mark: ListedTask) -> None:
        self._frames, self._bus, self._mark = frames(response), bus, mark
        self.cursor = ""

    async def next(self) -> Frame:
        """Return the next event."""
        async with asyncio.timeout(60):
            frame = await anext(self._frames)
        self.cursor = frame.id
        return frame

    async def changes(self, *tasks: ListedTask) -> list[str]:
        """Publish changes and return the tasks of those that the watcher sees.

        The list may have to be asked for again at any time; then they are published again.
        """
        while (seen := await self.undisturbed(*tasks)) is None:
            pass
        return seen

    async def undisturbed(self, *tasks: ListedTask) -> list[str] | None:
        """Return the same; None: the list must be asked for again."""
        mark = self._mark.model_copy(update={"task": f"mark-{next(_MARKS)}"})
        await publish(self._bus, *tasks, mark)
        seen = list[str]()
        while (frame := await self.next()).name == "change":
            if frame.json["task"] == mark.task:
                return seen
            seen = [] if frame.json["task"].startswith("mark-") else [*seen, frame.json["task"]]
        return None


@asynccontextmanager
async def watching(
    http: httpx.AsyncClient, bus: Bus, query: str = "", mark: ListedTask = MINE, **headers: str
) -> AsyncIterator[Watch]:
    """Watch; the watcher sees changes of `mark`."""
    async with http.stream("GET", f"{PATH}{query}", headers=EVENTS | headers) as response:
        assert response.raise_for_status().headers["cache-control"] == "no-store"
        watch = Watch(response, bus, mark)
        assert (await watch.next()).name == "list"
        yield watch


async def publish(bus: Bus, *tasks: ListedTask, after: int = 1, end: int = 1) -> None:
    """Publish changes as task state does."""
    message = ListChanges(after=after, end=end, tasks=list(tasks))
    await bus.publish(bus.subjects.changes(0), message.encode())


def like_mine(**changes: object) -> ListedTask:
    return MINE.model_copy(update=changes)


async def test_a_watcher_sees_the_changes_that_its_list_shows(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    in_d = like_mine(task="in-d", context="d")
    async with (
        watching(http, fleet.bus) as all_of_mine,
        watching(http, fleet.bus, "?contextId=d", in_d) as of_d,
    ):
        others = (
            like_mine(task="other-owner", owner="bob"),
            like_mine(task="other-tenant", tenant="acme"),
            like_mine(task="other-agent", agent="echo"),
        )
        assert await all_of_mine.changes(*others, MINE, in_d) == ["mine", "in-d"]
        assert set(await of_d.changes(*others, MINE, in_d)) == {"in-d"}


async def test_a_watcher_of_a_state_sees_tasks_come_and_go(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with watching(http, fleet.bus, f"?status={WORKING}") as watch:
        seen = await watch.changes(
            like_mine(task="new", state=SUBMITTED, before=""),
            like_mine(task="comes"),
            like_mine(task="goes", state=COMPLETED, before=WORKING),
            like_mine(task="gone", state=None, before=None, context=""),
            like_mine(task="unknown before", state=INPUT_REQUIRED, before=None),
            like_mine(task="elsewhere", state=COMPLETED, before=INPUT_REQUIRED),
        )
        assert seen == ["comes", "goes", "gone", "unknown before"]
    both = f"?status={INPUT_REQUIRED}&status={SUBMITTED}"
    async with watching(http, fleet.bus, both) as watch:
        seen = await watch.changes(
            like_mine(task="of one", state=COMPLETED, before=INPUT_REQUIRED),
            like_mine(task="of the other"),
            like_mine(task="of none", state=COMPLETED, before=WORKING),
        )
        assert seen == ["of one", "of the other"]


async def test_a_watcher_resumes_or_must_list_again(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with watching(http, fleet.bus) as first:
        seen, cursor = None, ""
        while seen is None:
            await first.changes()
            cursor = first.cursor
            seen = await first.undisturbed(MINE)
        assert seen == ["mine"]
        async with resuming(http, cursor) as resumed:
            assert (resumed.name, resumed.json["task"]) == ("change", "mine")
        async with resuming(http, "0a1b2c3d:1") as elsewhere:
            assert (elsewhere.name, elsewhere.json) == ("list", {})


@asynccontextmanager
async def resuming(http: httpx.AsyncClient, cursor: str) -> AsyncIterator[Frame]:
    """Resume a watch at `cursor`, for its first event."""
    headers = EVENTS | {"Last-Event-ID": cursor}
    async with http.stream("GET", PATH, headers=headers) as response, asyncio.timeout(60):
        yield await anext(frames(response))


async def test_an_unknown_state_is_refused(http: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    assert fleet.working
    answer = await http.get(f"{PATH}?status=ASLEEP", headers=EVENTS)
    assert answer.status_code == 400
    error: Json = answer.json()["error"]
    assert error["code"] == "invalid_input"
    assert error["message"].startswith("status: must be one of")


async def test_operators_watch_the_tasks_of_all_owners_of_their_tenant(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    mine = like_mine(tenant="acme", owner=encode_token(ANN.owner))
    theirs = like_mine(tenant="acme", owner="bob", task="theirs")
    async with (
        open_role_gateway(ONCALL) as gateway,
        watching(gateway.http, fleet.bus, "", mine, **ANN.bearer) as ann,
        watching(gateway.http, fleet.bus, "", mine, **ONCALL.bearer) as oncall,
    ):
        assert await ann.changes(MINE, theirs, mine) == ["mine"]
        assert await oncall.changes(MINE, theirs, mine) == ["theirs", "mine"]


async def test_operators_limit_a_list_and_its_changes_to_one_owner(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    mine = like_mine(tenant="acme", owner=encode_token(ANN.owner))
    theirs = like_mine(tenant="acme", owner="bob", task="theirs")
    async with open_role_gateway(ONCALL, FAQ) as gateway:

        async def listed(query: str, who: Person) -> list[str]:
            path = f"/v1/agents/assistant/tasks{query}"
            answer = await gateway.http.get(path, headers=VERSION | who.bearer)
            if answer.status_code != httpx.codes.OK:
                return [str(answer.status_code)]
            return [task["id"] for task in answer.json()["tasks"]]

        tasks = [await begun(gateway.http, who) for who in (ANN, FAQ)]
        assert sorted(await listed("", ONCALL)) == sorted(tasks)
        assert await listed(f"?owner={ANN.owner}", ONCALL) == [tasks[0]]
        assert await listed(f"?owner={ANN.owner}", ANN) == [tasks[0]]
        assert await listed(f"?owner={ANN.owner}", FAQ) == ["403"]
        assert await listed("?owner=nobody", ONCALL) == []
        refused = await gateway.http.get(f"{PATH}?owner=bob", headers=EVENTS | ANN.bearer)
        assert refused.status_code == 403
        oncall = ONCALL.bearer
        async with watching(gateway.http, fleet.bus, "?owner=bob", theirs, **oncall) as watch:
            assert await watch.changes(mine, theirs) == ["theirs"]


async def begun(http: httpx.AsyncClient, who: Person) -> str:
    """Begin a task of that owner; return its id."""
    body = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    path = "/v1/agents/assistant/message:send"
    answer = await http.post(path, json=body, headers=VERSION | who.bearer)
    return str(answer.raise_for_status().json()["task"]["id"])


async def test_a_watch_ends_with_the_permission_for_it(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    async with (
        open_role_gateway(FAQ) as gateway,
        gateway.http.stream("GET", PATH, headers=EVENTS | FAQ.bearer) as response,
        asyncio.timeout(60),
    ):
        lines = response.aiter_lines()
        while await anext(lines) != "event: list":
            pass
        gateway.know(replace(FAQ, roles=("on-call",)))
        comments = list[str]()

        async def said() -> None:
            comments.extend([line async for line in lines if line.startswith(":")])

        ending = asyncio.create_task(said())
        while not ending.done():
            await publish(fleet.bus, like_mine(tenant="acme", owner=FAQ.owner))
            await asyncio.sleep(0.1)
    assert "permissions" in comments[-1]


@pytest.mark.parametrize("person", [OPERATOR], ids=["without ListTasks"])
async def test_who_may_not_list_may_not_watch(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, person: Person
) -> None:
    assert fleet.working
    async with open_role_gateway(person) as gateway:
        answer = await gateway.http.get(PATH, headers=EVENTS | person.bearer)
    assert answer.status_code == 403


async def test_an_owner_has_a_maximum_of_watches(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    async with open_role_gateway(ONCALL, max_watches_per_owner=1) as gateway:

        def opening(who: Person) -> AbstractAsyncContextManager[httpx.Response]:
            return gateway.http.stream("GET", PATH, headers=EVENTS | who.bearer)

        async with opening(ANN) as first:
            assert first.status_code == 200
            async with opening(ANN) as second, opening(ONCALL) as others:
                assert (second.status_code, others.status_code) == (429, 200)
                refused = json.loads(await second.aread())["error"]
            assert refused == {
                "code": "too_many_streams_of_owner",
                "message": "you have 1 open watches on this gateway, the limit",
            }

        async def is_free() -> bool:
            async with opening(ANN) as again:
                return again.status_code == 200

        await eventually(is_free, "a watch that was closed counts no longer")
