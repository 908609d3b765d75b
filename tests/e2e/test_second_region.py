"""The region with the streams is lost, and an operator lets the region with the mirrors serve."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from headrace.model.task import COMPLETED, INPUT_REQUIRED
from tests.chaos.agents import answer_to
from tests.support.clients.bindings import Json, Rest, message
from tests.support.compose_file import ROOT
from tests.support.leaf_node import HUB, LeafNode
from tests.support.plain_http import NO_TLS
from tests.support.servers import NatsProcess
from tests.support.stack import Stack
from tests.support.waiting import eventually, until

SHORT = ["3 1 a", "4 1 b"]
LONG = ["60 100 c", "70 100 d"]
NEW = ["5 1 e", "6 1 f"]
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
        agents="tests.chaos.agents:agents",
        environment={"PYTHONPATH": str(ROOT), "HEADRACE_NATS_URL": nats.url},
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
    code, said = command(regions.leaf, "mirror", HUB)
    assert code == 0, said
    return all("lag 0, heard of origin 0" in line for line in said.splitlines())


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


async def begin(http: httpx.AsyncClient, agent: str, text: str) -> str:
    """Begin a task and return its id."""
    asked = message(text) | {"configuration": {"returnImmediately": True}}
    return str((await Rest(http, agent).call("SendMessage", asked))["task"]["id"])


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


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif("HEADRACE_SOAK" not in os.environ, reason="takes a minute: make soak")
async def test_the_second_region_serves_what_was_mirrored_of_the_first(
    regions: LeafNode, tmp_path: Path
) -> None:
    with region(tmp_path / "one", regions.hub) as stack:
        async with client(stack) as http:
            code, said = command(regions.leaf, "mirror", HUB)
            assert (code, "EVENTS: " in said) == (0, True), said
            short = {await begin(http, "plain", text): text for text in SHORT}
            asking = [await begin(http, "asking", "2 1") for _ in range(2)]
            deleted = [await begin(http, "plain", "2 1") for _ in range(2)]
            for one in (*short, *deleted):
                await come_to(http, "plain", one, COMPLETED)
            for one in asking:
                await come_to(http, "asking", one, INPUT_REQUIRED)
            for one in deleted:
                await Rest(http, "plain").call("DeleteTask", {"id": one})
            long = {await begin(http, "plain", text): text for text in LONG}
            for one in long:
                await come_to(http, "plain", one, "TASK_STATE_WORKING")
            until(lambda: is_level(regions), "the mirrors have what is at rest", 60)
        destroy(stack, regions.hub)

    code, said = command(regions.leaf, "apply")
    assert code == REFUSED
    assert "headrace streams apply --promote" in said
    code, said = command(regions.leaf, "apply", "--promote")
    assert code == 0, said
    assert command(regions.leaf, "plan") == (0, "the streams match the settings\n")
    with region(tmp_path / "two", regions.leaf) as stack:
        async with client(stack) as http:
            for one, text in (short | long).items():
                assert answer(await come_to(http, "plain", one, COMPLETED)) == answer_to(
                    "plain", text
                )
            for one in asking:
                follow_up = message("4 1 g", taskId=one)
                await Rest(http, "asking").call("SendMessage", follow_up)
                done = await come_to(http, "asking", one, COMPLETED)
                assert answer(done) == answer_to("plain", "4 1 g")
            new = [await begin(http, "plain", text) for text in NEW]
            for one, text in zip(new, NEW, strict=True):
                done = await come_to(http, "plain", one, COMPLETED)
                assert answer(done) == answer_to("plain", text)

            async def are_listed_once() -> bool:
                listed = await Rest(http, "plain").call("ListTasks", {"pageSize": 100})
                ids = sorted(one["id"] for one in listed["tasks"])
                return ids == sorted([*short, *long, *new])

            await eventually(are_listed_once, "each task once, without those deleted", 60)
