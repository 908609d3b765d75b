"""A fleet at work is backed up, and serves from the backup elsewhere, with an empty Redis."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from tests.support import extra_services
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message
from tests.support.receiver import Receiver, receiving
from tests.support.servers import NatsProcess
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import eventually, until

LONG = "60 100"
COUNTED = "".join(f"{number} " for number in range(1, 61))
FILE_BYTES = 2_000_000
SCHEDULE = {"agent": "echo", "message": "report", "every": "12h"}
TRIGGER = {"agent": "echo", "subject": "backup.orders", "text": "{body}"}
CHAT = "backup-chat"
MEMORY = ("memory", "list", "--agent", "buyer", "--context", CHAT, "--json")


@pytest.fixture
def workers(fleet: Fleet, tmp_path: Path) -> Iterator[None]:
    """A worker of the shared stack, with agents that ask, remember and make files."""
    with extra_services.worker(tmp_path / "worker", "agents", fleet.nats_url):
        until(lambda: extra_services.is_served(fleet.gateways, "buyer"), "buyer is served")
        yield


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[NatsProcess]:
    """Another nats-server, without streams."""
    with NatsProcess(tmp_path / "elsewhere") as nats:
        yield nats


def run(nats_url: str, *words: str, stdin: bytes = b"") -> bytes:
    """Run a command of operators."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace_cli", *words, "--nats-url", nats_url],
        input=stdin,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def piped(nats_url: str, archive: Path, *words: str) -> None:
    """Run a command that reads the archive if there is one, and keep what it writes otherwise."""
    written = run(nats_url, *words, stdin=archive.read_bytes() if archive.exists() else b"")
    if not archive.exists():
        archive.write_bytes(written)


@asynccontextmanager
async def loaded(http: httpx.AsyncClient, fleet: Fleet) -> AsyncIterator[list[str]]:
    """Yield the ids of the tasks that end meanwhile, one after the other, on both gateways."""
    ended = list[str]()

    async def load() -> None:
        while True:
            for url in fleet.gateways:
                answer = await PlainAgent(http, url, "echo").send(f"load {len(ended)}")
                ended.append(answer.raise_for_status().json()["task"]["id"])

    loading = asyncio.create_task(load())
    try:
        yield ended
    finally:
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading


@dataclass(frozen=True, slots=True)
class Before:
    """What the fleet had before its backup."""

    ended: list[Json]
    waiting: list[str]
    working: list[str]
    file: str
    """Path of a file that is too large for a log."""
    remembered: bytes
    thread: Json
    marked: Json
    """The same thread as its owner has set it."""


async def begun(http: httpx.AsyncClient, fleet: Fleet, receiver: Receiver, gate: Path) -> Before:
    """Begin tasks of each kind, two of most, and declare what begins others."""
    [one, other] = fleet.gateways
    (await http.put(f"{one}/v1/schedules/backup", json=SCHEDULE)).raise_for_status()
    (await http.put(f"{other}/v1/triggers/backup", json=TRIGGER)).raise_for_status()
    ended = [
        (await PlainAgent(http, url, "echo").send("kept")).json()["task"] for url in (one, other)
    ]
    asking = [
        (await PlainAgent(http, url, "asker").send("hi")).json()["task"] for url in (one, other)
    ]
    await asyncio.to_thread(gate.touch)
    bought = message(str(gate), contextId=CHAT)
    buying = await PlainAgent(http, one, "buyer").post("message:send", {"message": bought})
    assert buying.json()["task"]["status"]["state"] == COMPLETED, buying.text
    made = (await PlainAgent(http, one, "filer").send(str(FILE_BYTES))).json()["task"]
    [part] = [part for artifact in made["artifacts"] for part in artifact["parts"]]
    thread = {"threadId": CHAT, "runId": "r1", "messages": _said("hello"), "tools": []}
    run_input: Json = thread | {"state": {}, "context": [], "forwardedProps": {}}
    (await http.post(f"{one}/v1/agents/echo/ag-ui", json=run_input)).raise_for_status()
    changed = (await http.get(f"{other}/v1/threads/{CHAT}")).raise_for_status().json()["changed"]
    marks = {"title": "Kept", "archived": True, "readTo": changed}
    marked = await http.patch(f"{one}/v1/threads/{CHAT}", json=marks)
    working = [
        (
            await PlainAgent(http, url, "counter").send(
                LONG,
                returnImmediately=True,
                taskPushNotificationConfig={"url": receiver.url(f"/hook{number}")},
            )
        ).json()["task"]["id"]
        for number, url in enumerate((one, other))
    ]
    for task in working:
        await come_to(http, one, ("counter", task), WORKING)
    return Before(
        ended,
        [task["id"] for task in asking],
        working,
        httpx.URL(part["url"]).raw_path.decode(),
        await asyncio.to_thread(run, fleet.nats_url, *MEMORY),
        (await http.get(f"{one}/v1/agents/echo/ag-ui/threads/{CHAT}")).raise_for_status().json(),
        marked.raise_for_status().json(),
    )


def _said(text: str) -> list[Json]:
    return [{"id": "m1", "role": "user", "content": text}]


async def come_to(http: httpx.AsyncClient, url: str, task: tuple[str, str], state: str) -> Json:
    """Return a task, by its agent and its id, once it is in `state`."""

    async def look() -> Json | None:
        found: Json = (await PlainAgent(http, url, task[0]).get(task[1])).json()
        return found if found["status"]["state"] == state else None

    return await eventually(look, f"{task} is {state}", 90)


async def listed(http: httpx.AsyncClient, url: str) -> list[str]:
    """Return the ids of all tasks of echo."""
    found, token = list[str](), ""
    while True:
        query = {"pageSize": "100", "pageToken": token}
        page = (await http.get(f"{url}/v1/agents/echo/tasks", params=query)).raise_for_status()
        found += [task["id"] for task in page.json()["tasks"]]
        if not (token := page.json().get("nextPageToken", "")):
            return found


async def check(http: httpx.AsyncClient, url: str, before: Before, receiver: Receiver) -> None:
    """Check that what was begun is there, and comes to its end."""
    for known in before.ended:
        found = await come_to(http, url, ("echo", known["id"]), COMPLETED)
        assert found["artifacts"] == known["artifacts"]
        assert found["history"] == known["history"]
    for task in before.waiting:
        await come_to(http, url, ("asker", task), INPUT_REQUIRED)
        answer = {"message": message("Ann", taskId=task)}
        answered = await PlainAgent(http, url, "asker").post("message:send", answer)
        assert "Hello, Ann!" in answered.text
    for task in before.working:
        found = await come_to(http, url, ("counter", task), COMPLETED)
        parts = [part for artifact in found["artifacts"] for part in artifact["parts"]]
        assert text_of(parts) == COUNTED
    for number in range(len(before.working)):
        await receiver.until(
            partial(ends, receiver, f"/hook{number}"), "a webhook hears of the end"
        )
    assert len((await http.get(url + before.file)).raise_for_status().content) == FILE_BYTES
    thread = await http.get(f"{url}/v1/agents/echo/ag-ui/threads/{CHAT}")
    assert thread.json()["messages"] == before.thread["messages"]
    assert (await http.get(f"{url}/v1/threads/{CHAT}")).json() == before.marked
    schedule = (await http.get(f"{url}/v1/schedules/backup")).raise_for_status().json()
    assert (schedule["message"], schedule["state"]) == ([{"text": "report"}], "active")
    assert schedule["next"] is not None
    trigger = (await http.get(f"{url}/v1/triggers/backup")).raise_for_status().json()
    assert trigger["subject"] == TRIGGER["subject"]
    new = await PlainAgent(http, url, "echo").send("new")
    assert new.json()["task"]["status"]["state"] == COMPLETED


async def has_many(ended: list[str]) -> bool:
    return len(ended) > 10


def ends(receiver: Receiver, path: str) -> bool:
    """Tell whether a webhook has heard of the end of its task."""
    return any(COMPLETED in json.dumps(one.body) for one in receiver.taken(path))


@pytest.mark.usefixtures("workers")
async def test_a_backup_under_load_serves_elsewhere(
    fleet: Fleet, http: httpx.AsyncClient, elsewhere: NatsProcess, tmp_path: Path
) -> None:
    archive = tmp_path / "backup.tar"
    async with receiving() as receiver:
        before = await begun(http, fleet, receiver, tmp_path / "gate")
        async with loaded(http, fleet) as ended:
            await eventually(partial(has_many, ended), "tasks have ended under load")
            certain = set(ended)
            await asyncio.to_thread(piped, fleet.nats_url, archive, "backup", "-")
            assert len(ended) > len(certain)
        receiver.came.clear()
        await asyncio.to_thread(piped, elsewhere.url, archive, "restore", "-")
        assert await asyncio.to_thread(run, elsewhere.url, *MEMORY) == before.remembered
        with stack_on(elsewhere, tmp_path / "stack") as restored, agents_on(elsewhere, tmp_path):
            [one, other] = restored.gateways
            until(lambda: extra_services.is_served([one, other], "buyer"), "buyer is served")
            ids = await listed(http, other)
            assert certain <= set(ids)
            assert len(ids) == len(set(ids))
            await check(http, one, before, receiver)
    await forgotten(http, fleet)


def stack_on(nats: NatsProcess, folder: Path) -> Stack:
    """Return a stack with a Redis of its own on another NATS."""
    environment = {"HEADRACE_NATS_URL": nats.url}
    return Stack(folder, gateways=2, workers=1, task_states=2, triggers=1, environment=environment)


def agents_on(nats: NatsProcess, folder: Path) -> ServiceProcess:
    """Return a worker with the same agents as the first fleet's extra one."""
    return extra_services.worker(folder / "other-worker", "agents", nats.url)


async def forgotten(http: httpx.AsyncClient, fleet: Fleet) -> None:
    """Delete what would begin tasks of other tests' fleet."""
    for path in ("schedules/backup", "triggers/backup"):
        (await http.delete(f"{fleet.gateways[0]}/v1/{path}")).raise_for_status()
