"""Gateways and workers at a leaf node use the streams of the hub."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from headrace import Agent, Agents, File, RunContext, agent
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.clients.bindings import Rest
from tests.support.leaf_node import HUB, LeafNode
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.task_submitter import fresh_names
from tests.support.waiting import eventually


@pytest.fixture
def places(tmp_path: Path) -> Iterator[LeafNode]:
    """A hub and a leaf node, each with its own JetStream."""
    with LeafNode(tmp_path) as both:
        yield both


@agent()
async def far(_: RunContext) -> str:
    """Answers."""
    return "from the other place"


@agent()
async def near(_: RunContext) -> AsyncIterator[str | File]:
    """Answers with a large file, too."""
    yield "from here"
    yield File("large.bin", b"x" * 300_000)


@asynccontextmanager
async def working(one: Agent, **settings: Any) -> AsyncIterator[None]:  # noqa: ANN401  # any setting
    """Serve an agent for the length of a block."""
    given = {"drain_seconds": 0, "startup_timeout": 60, **settings}
    worker = Worker(WorkerSettings.model_validate(given), Agents([one]))
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


async def ask(url: str, name: str, text: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the task of a message, when it has ended."""
    async with httpx.AsyncClient(
        base_url=url, headers={"A2A-Version": "1.0"}, timeout=60, verify=NO_TLS
    ) as http:

        async def is_known() -> bool:
            found = (await http.get("/v1/agents")).json()["agents"]
            return any(one["id"] == name and one["available"] for one in found)

        await eventually(is_known, f"the gateway knows {name}")
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
        return (await Rest(http, name).call("SendMessage", {"message": message}))["task"]


async def test_a_worker_behind_a_leaf_without_jetstream_serves_the_hub_with_files(
    tmp_path: Path,
) -> None:
    names = fresh_names()
    with LeafNode(tmp_path, has_jetstream=False) as places:
        hub: dict[str, Any] = {"nats_url": places.hub.url, **names}
        async with (
            running(own_settings(**hub)) as url,
            working(near, nats_url=places.leaf.url, **names),
        ):
            for text in ("one", "two"):
                task = await ask(url, "near", text)
                assert task["status"]["state"] == "TASK_STATE_COMPLETED"
                output, file = task["artifacts"]
                assert output["parts"][0]["text"] == "from here"
                assert file["parts"][0]["filename"] == "large.bin"


@pytest.mark.parametrize("gateway_at", ["hub", "leaf"])
async def test_a_task_crosses_the_leaf_in_either_direction(
    places: LeafNode, gateway_at: str
) -> None:
    names = fresh_names()
    at_hub: dict[str, Any] = {"nats_url": places.hub.url, **names}
    at_leaf = {"nats_url": places.leaf.url, "nats_jetstream_domain": HUB, **names}
    theirs, ours = (at_hub, at_leaf) if gateway_at == "hub" else (at_leaf, at_hub)
    async with (
        working(near, **ours),
        working(far, **theirs),
        running(own_settings(**theirs)) as url,
    ):
        for text in ("one", "two"):
            task = await ask(url, "near", text)
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            output, file = task["artifacts"]
            assert output["parts"][0]["text"] == "from here"
            assert file["parts"][0]["filename"] == "large.bin"
        [answer] = (await ask(url, "far", "three"))["artifacts"]
        assert answer["parts"][0]["text"] == "from the other place"
    # The leaf's own JetStream has stayed empty.
    client = await nats.connect(places.leaf.url)
    assert await client.jetstream().streams_info() == []
    assert len(await client.jetstream(domain=HUB).streams_info()) > 0
    await client.close()
