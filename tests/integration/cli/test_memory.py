"""What operators see and delete of what agents remember."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner, Result

from headrace.jetstream.agent_memory import INLINE, AgentMemory, chunk_of, new_chunks
from headrace.jetstream.api import stream_info
from headrace.jetstream.connection import Bus
from headrace.model.memory import MemoryScope
from headrace.model.subjects import encode_token
from headrace.model.task import mint_task_id
from headrace.settings import BusSettings
from headrace_cli.main import main
from tests.support.servers import NatsProcess

TASK = mint_task_id(0)
ANN = MemoryScope("default", "desk", encode_token("ann@example.com"), "chat/1", TASK)


@pytest.fixture
async def bus(nats_server: NatsProcess) -> AsyncIterator[Bus]:
    name = f"own{secrets.token_hex(4)}"
    bus = Bus(BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=name))
    await bus.connect("test")
    store = AgentMemory(bus)
    await store.put(ANN, "draft", b"of the task", None)
    await store.put(ANN._replace(task=None), "draft", b"x" * (INLINE + 1), None)
    await store.put(ANN._replace(task=None, context=None), "likes/tea", b"yes", None)
    await store.put(ANN._replace(owner="bob", task=None), "draft", b"bob's", None)
    yield bus
    await bus.close()


async def run(bus: Bus, *args: str) -> Result:
    """Run ``headrace memory``."""
    prefix = bus.settings.prefix
    environment = {"HEADRACE_PREFIX": prefix, "HEADRACE_STREAM_PREFIX": prefix}
    words = ["memory", args[0], "--nats-url", bus.settings.nats_url, "--agent", "desk", *args[1:]]
    return await asyncio.to_thread(CliRunner().invoke, main, words, env=environment)


async def rows(bus: Bus, *args: str) -> list[str]:
    found = await run(bus, "list", *args)
    assert found.exit_code == 0, found.output
    return [" ".join(line.split()[:-2]) for line in found.stdout.splitlines()[1:]]


async def test_keys_are_listed_by_whose_they_are(bus: Bus) -> None:
    of_task = f"ann@example.com chat/1 {TASK} draft"
    assert len(await rows(bus)) == 4
    assert of_task in await rows(bus)
    assert await rows(bus, "--task", TASK) == [of_task]
    assert await rows(bus, "--owner", "bob") == ["bob chat/1 draft"]
    assert len(await rows(bus, "--owner", "ann@example.com", "--context", "chat/1")) == 2
    assert await rows(bus, "--tenant", "other") == []


async def test_one_value_is_shown(bus: Bus) -> None:
    shown = await run(bus, "show", "draft", "--task", TASK)
    assert (shown.exit_code, shown.stdout_bytes) == (0, b"of the task")
    several = await run(bus, "show", "draft")
    assert several.exit_code != 0
    assert "3 values have key 'draft'; name one with --owner" in several.stderr


async def test_what_is_deleted_is_gone_with_its_chunks(bus: Bus) -> None:
    owner = "--owner", "ann@example.com"
    assert (await run(bus, "delete", *owner)).exit_code == 2
    deleted = await run(bus, "delete", *owner, "draft")
    assert (deleted.exit_code, deleted.stdout) == (0, "deleted draft\n" * 2)
    assert await rows(bus, *owner) == ["ann@example.com likes/tea"]
    assert (await run(bus, "delete", *owner, "--all")).exit_code == 0
    assert await rows(bus) == ["bob chat/1 draft"]
    assert (await stream_info(bus, f"KV_{bus.streams.memory}"))["state"]["messages"] == 1


async def test_memory_of_a_context_that_is_too_long_for_a_subject_is_deleted(bus: Bus) -> None:
    store, large = AgentMemory(bus), b"x" * (2 * INLINE + 7)
    first, second = (ANN._replace(task=None, context=end + "ä" * 250) for end in "12")
    for scope in (first, second):
        await store.put(scope, "notes", large, None)
    hashes = [row.split()[1] for row in await rows(bus) if row.endswith(" notes")]
    assert len(set(hashes)) == 2
    for context in (first.context, hashes[1]):
        shown = await run(bus, "show", "notes", "--context", str(context))
        assert (shown.exit_code, shown.stdout_bytes) == (0, large)
    listed = json.loads((await run(bus, "list", "--context", hashes[0], "--json")).stdout)
    assert listed["bytes"] == len(large)
    assert (await run(bus, "delete", "notes", "--context", hashes[0])).exit_code == 0
    assert len(await rows(bus)) == 5
    assert (await run(bus, "delete", "--all")).exit_code == 0
    assert (await stream_info(bus, f"KV_{bus.streams.memory}"))["state"]["messages"] == 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--agent", "*", "--agent '*' must be 1 to 64 of"),
        ("--owner", "", "--owner '' must not be empty"),
        ("--task", ">", "--task '>' is not a task id"),
    ],
)
async def test_a_name_that_is_a_pattern_or_none_is_refused(
    bus: Bus, option: str, value: str, said: str
) -> None:
    refused = await run(bus, "delete", "--all", option, value)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert len(await rows(bus)) == 4


async def test_a_key_that_nobody_has_is_named(bus: Bus) -> None:
    refused = await run(bus, "delete", "draft", "likes/coffee")
    assert refused.exit_code == 1
    assert "no value has key 'likes/coffee'; nothing was deleted" in refused.stderr
    assert len(await rows(bus)) == 4


async def test_all_includes_what_a_killed_writer_has_left(bus: Bus) -> None:
    store, left = AgentMemory(bus), new_chunks([b"x"])
    owner = ANN._replace(task=None, context=None)
    await store.bucket.put(chunk_of(owner, left, 0), b"x", 0)
    deleted = await run(bus, "delete", "--owner", "ann@example.com", "--all")
    assert deleted.stdout.count("deleted ") == 3
    assert (await stream_info(bus, f"KV_{bus.streams.memory}"))["state"]["messages"] == 1
