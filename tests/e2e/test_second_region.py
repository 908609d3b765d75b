"""The region with the streams is lost, and an operator lets the region with the mirrors serve."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from nats import connect

from headrace.model.parts import text_of
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from tests.chaos.agents import answer_to
from tests.support.clients.bindings import Json, Rest, message
from tests.support.compose_file import ROOT
from tests.support.leaf_node import HUB, LeafNode
from tests.support.plain_http import NO_TLS
from tests.support.receiver import receiving
from tests.support.servers import NatsProcess
from tests.support.stack import Stack
from tests.support.waiting import TIMEOUT, eventually, until

SHORT = ["3 1 a", "4 1 b"]
LONG = ["60 100 c", "70 100 d"]
NEW = ["5 1 e", "6 1 f"]
EVENTS = ["2 1 h", "2 1 i", "2 1 j", "2 1 k"]
ORDERS = {"name": "ORDERS", "subjects": ["orders.*"], "storage": "file"}
TRIGGER = {"agent": "plain", "subject": "orders.*", "stream": "ORDERS", "text": "{body.text}"}
REFUSED = 1
"""Exit code of a command that changes nothing."""


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[LeafNode]:
    """The NATS servers of two regions, each with its own JetStream."""
    with LeafNode(tmp_path / "nats") as both:
        yield both


def region(folder: Path, nats: NatsProcess) -> Stack:
    """Return one gateway, worker and task state with a Redis of their own, on `nats`."""
    return Stack(
        folder,
        gateways=1,
        workers=1,
        task_states=1,
        triggers=1,
        agents="tests.chaos.agents:agents",
        environment={
            "PYTHONPATH": str(ROOT),
            "HEADRACE_NATS_URL": nats.url,
            "HEADRACE_PUSH_ALLOW": "127.0.0.0/8",
        },
    )


def command(nats: NatsProcess, *words: str) -> tuple[int, str]:
    """Return a command's exit code and what it says."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADRACE_")}
    run = subprocess.run(
        [sys.executable, "-m", "headrace_cli", "streams", *words],
        env=ours | {"HEADRACE_NATS_URL": nats.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def is_level(regions: LeafNode) -> bool:
    """Tell whether the mirrors have had all that there was when they were asked."""
    code, output = command(regions.leaf, "mirror", HUB)
    assert code == 0, output
    return all("lag 0, last contact with the origin 0" in line for line in output.splitlines())


def destroy(stack: Stack, nats: NatsProcess) -> None:
    """End all that runs in a region with SIGKILL."""
    pids = [stack.pid, *stack.pids()]
    nats.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    stack.close()


@asynccontextmanager
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the stack's gateway."""
    async with httpx.AsyncClient(
        base_url=stack.url, headers={"A2A-Version": "1.0"}, timeout=120, verify=NO_TLS
    ) as http:
        yield http


async def ask(nats: NatsProcess, what: str, config: Json) -> None:
    """Create or update a stream of users'."""
    client = await connect(nats.url)
    subject, content = f"$JS.API.STREAM.{what}.ORDERS", json.dumps(config).encode()
    answer = await client.request(subject, content, timeout=TIMEOUT)
    assert "error" not in json.loads(answer.data), answer.data
    await client.close()


async def order(nats: NatsProcess, text: str) -> None:
    """Publish an event."""
    client = await connect(nats.url)
    await client.jetstream(timeout=TIMEOUT).publish(
        "orders.new", json.dumps({"text": text}).encode()
    )
    await client.close()


async def listed(http: httpx.AsyncClient, texts: list[str]) -> list[str]:
    """Return the ids of the tasks, once there is one for each of the texts, and no other."""
    ids = dict[str, str]()

    async def are_there() -> bool:
        tasks = (await Rest(http, "plain").call("ListTasks", {"pageSize": 100}))["tasks"]
        found = [(text_of(one["history"][0]["parts"]), one["id"]) for one in tasks]
        ids.update(found)
        return sorted(text for text, _ in found) == sorted(texts)

    await eventually(are_there, f"one task for each of {texts}", 120)
    return [ids[text] for text in texts]


async def begin(http: httpx.AsyncClient, agent: str, text: str, hook: str = "") -> str:
    """Begin a task, of which a webhook hears, and return its id."""
    configuration: Json = {"returnImmediately": True}
    if hook:
        configuration["taskPushNotificationConfig"] = {"url": hook}
    request = message(text) | {"configuration": configuration}
    return str((await Rest(http, agent).call("SendMessage", request))["task"]["id"])


async def come_to(http: httpx.AsyncClient, agent: str, task: str, state: str) -> Json:
    """Return a task once it is in `state`."""

    async def is_there() -> bool:
        found = await Rest(http, agent).call("GetTask", {"id": task})
        return bool(found["status"]["state"] == state)

    await eventually(is_there, f"{agent}'s task is {state}", 120)
    found: Json = await Rest(http, agent).call("GetTask", {"id": task})
    return found


def answer(task: Json) -> str:
    """Return all that the agent has said."""
    parts = [part for artifact in task["artifacts"] for part in artifact["parts"]]
    return "".join(part["text"] for part in parts)


@dataclass(frozen=True, slots=True)
class Begun:
    """The ids of tasks that the first region has begun."""

    ended: list[str]
    working: list[str]
    asking: list[str]


async def begun_in(stack: Stack, nats: NatsProcess, hook: str) -> Begun:
    """Begin two tasks of each kind, delete two, and let two events begin tasks."""
    async with client(stack) as http:
        (await http.put("/v1/triggers/t1", json=TRIGGER)).raise_for_status()
        for _ in range(2):
            deleted = await begin(http, "plain", "2 1")
            await come_to(http, "plain", deleted, COMPLETED)
            await Rest(http, "plain").call("DeleteTask", {"id": deleted})
        ended = [await begin(http, "plain", text) for text in SHORT]
        for text in EVENTS[:2]:
            await order(nats, text)
        for one in await listed(http, [*SHORT, *EVENTS[:2]]):
            await come_to(http, "plain", one, COMPLETED)
        asking = [await begin(http, "asking", "2 1") for _ in range(2)]
        for one in asking:
            await come_to(http, "asking", one, INPUT_REQUIRED)
        working = [await begin(http, "plain", text, hook) for text in LONG]
        for one in working:
            await come_to(http, "plain", one, WORKING)
    return Begun(ended, working, asking)


async def check_serves(stack: Stack, nats: NatsProcess, begun: Begun) -> None:
    """Check that what was begun comes to its end, and what is new, too."""
    async with client(stack) as http:
        known = zip([*begun.ended, *begun.working], [*SHORT, *LONG], strict=True)
        for one, text in known:
            done = await come_to(http, "plain", one, COMPLETED)
            assert answer(done) == answer_to("plain", text)
        for one in begun.asking:
            await Rest(http, "asking").call("SendMessage", message("4 1 g", taskId=one))
            done = await come_to(http, "asking", one, COMPLETED)
            assert answer(done) == answer_to("plain", "4 1 g")
        for text in NEW:
            await begin(http, "plain", text)
        for text in EVENTS[2:]:
            await order(nats, text)
        # None that was deleted, and no second one for an event of before.
        everything = [*SHORT, *LONG, *NEW, *EVENTS]
        for one, text in zip(await listed(http, everything), everything, strict=True):
            done = await come_to(http, "plain", one, COMPLETED)
            assert answer(done) == answer_to("plain", text)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif("HEADRACE_SOAK" not in os.environ, reason="takes a minute: make soak")
async def test_the_second_region_serves_what_was_mirrored_of_the_first(
    regions: LeafNode, tmp_path: Path
) -> None:
    first, second = regions.hub, regions.leaf
    async with receiving() as receiver:
        with region(tmp_path / "one", first) as stack:
            code, output = command(second, "mirror", HUB)
            assert (code, "EVENTS: " in output) == (0, True), output
            await ask(first, "CREATE", ORDERS)
            external = {"api": f"$JS.{HUB}.API"}
            mirror = {"name": "ORDERS", "mirror": {"name": "ORDERS", "external": external}}
            await ask(second, "CREATE", mirror)
            begun = await begun_in(stack, first, receiver.url())
            until(lambda: is_level(regions), "the mirrors have what is at rest", 60)
            destroy(stack, first)

        code, output = command(second, "apply")
        assert (code, "streams apply --promote" in output) == (REFUSED, True)
        code, output = command(second, "apply", "--promote")
        assert code == 0, output
        assert command(second, "plan") == (0, "the streams match the settings\n")
        await ask(second, "UPDATE", ORDERS)

        def are_told() -> bool:
            ended = [one.body for one in receiver.taken() if COMPLETED.encode() in one.raw]
            return {one["statusUpdate"]["taskId"] for one in ended} == set(begun.working)

        with region(tmp_path / "two", second) as stack:
            await check_serves(stack, second, begun)
            await receiver.until(are_told, "the webhooks heard of both ends", 120)
