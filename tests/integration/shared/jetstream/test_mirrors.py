"""Mirrors have what their origins have, and become streams that take more when these are lost."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import nats.errors
import pytest
from nats.js.errors import NotFoundError

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.jetstream.mirrors import create_mirrors
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.jetstream.purge import purge
from headrace.jetstream.streams import Effect, apply, differences, ensure_streams, find, kept_for
from headrace.log.tombstone import Why, put_tombstone
from headrace.model.errors import StreamsDiffer
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from tests.support.leaf_node import HUB, LeafNode
from tests.support.waiting import eventually

TENANTS = ["t1", "t2"]


@pytest.fixture
async def regions(tmp_path: Path) -> AsyncIterator[tuple[LeafNode, Bus, Bus]]:
    """The servers of two regions, and a connection to each; only the first one has streams."""
    with LeafNode(tmp_path) as places:
        buses = [
            Bus(BusSettings(nats_url=place.url, events_max_bytes=10_000_000))
            for place in (places.hub, places.leaf)
        ]
        for bus in buses:
            await bus.dial("test")
        await ensure_streams(buses[0].js, buses[0].settings)
        await eventually(lambda: _reaches_origin(buses[1]), "the leaf reaches the hub's streams")
        yield places, buses[0], buses[1]
        for bus in buses:
            await asyncio.wait_for(bus.close(), 60)


async def _reaches_origin(bus: Bus) -> bool:
    with suppress(nats.errors.Error):
        return await find(bus.js, "EVENTS", f"$JS.{HUB}.API") is not None
    return False


async def test_mirrors_become_streams(regions: tuple[LeafNode, Bus, Bus]) -> None:
    places, first, second = regions
    kept = first.settings.model_copy(update={"retention": 60.0})
    await apply(first.js, kept, shrink=True)
    await create_mirrors(second.js, second.settings, HUB)
    events = [first.subjects.shard_events(0).replace(">", f"{one}.a.0-1") for one in TENANTS]
    for subject in events:
        await first.js.publish(subject, b"one")
        # A tombstone expires at its origin, and stays here.
        await first.js.publish(subject, b"", headers={"Nats-TTL": "1s"})
    keys, stored = Bucket(first, first.streams.agents), Bucket(second, second.streams.agents)
    for key in TENANTS:
        await keys.put(key, b"kept", 0)
        await keys.put(f"{key}-live", b"expires", 0, seconds=1)

    async def are_level() -> bool:
        mirrors = {one.stream: one for one in await create_mirrors(second.js, second.settings, HUB)}
        counted = mirrors["EVENTS"].messages, mirrors["KV_AGENTS"].messages
        lives = (await first.js.stream_info("EVENTS")).state.messages
        return counted == (4, 2) and lives == 2

    await eventually(are_level, "what expires has expired, tombstones but at their origin")
    with pytest.raises(StreamsDiffer, match=r"EVENTS: mirror is .*streams apply --promote"):
        await apply(second.js, second.settings, shrink=True)
    with pytest.raises(StreamsDiffer, match="RUNS is missing"):
        await ensure_streams(second.js, second.settings)
    assert "RUNS" not in [one.config.name for one in await second.js.streams_info()]
    places.hub.kill()

    wanted = await differences(second.js, second.settings)
    assert {one.stream for one in wanted if one.effect is Effect.PROMOTE} >= {"EVENTS", "KV_AGENTS"}
    await apply(second.js, second.settings, shrink=False, promote=True)
    assert await differences(second.js, second.settings) == []
    assert (await kept_for(second.js, second.settings)).ended == kept.retention
    for subject in events:
        assert (await second.js.publish(subject, b"three")).stream == "EVENTS"
    for key in TENANTS:
        found = await stored.get(key)
        assert found.data == b"kept"
        await stored.put(key, b"changed", found.sequence)


async def test_a_region_with_streams_of_its_own_gets_no_mirrors(
    regions: tuple[LeafNode, Bus, Bus],
) -> None:
    _, first, second = regions
    await ensure_streams(second.js, second.settings)
    with pytest.raises(StreamsDiffer, match=r"EVENTS, .* exist in this domain and are not mirrors"):
        await create_mirrors(second.js, second.settings, HUB)
    assert first.connected


async def test_what_was_erased_at_the_origin_is_erased_before_a_mirror_becomes_a_stream(
    regions: tuple[LeafNode, Bus, Bus],
) -> None:
    places, first, second = regions
    await create_mirrors(second.js, second.settings, HUB)
    keys = [TaskKey(one, "a", f"0-{number:032x}") for one in TENANTS for number in (1, 2, 3)]
    logs = [first.subjects.event(key) for key in keys]
    content = [(await first.js.publish(log, b"content")).seq for log in logs]
    for key in keys:
        await FileStore(first).put(key, FileOwner("u", "c"), b"content")

    async def count(bus: Bus, stream: str = "EVENTS") -> int:
        return (await bus.js.stream_info(stream)).state.messages

    async def are(*expected: int) -> bool:
        return [await count(first), await count(second)] == list(expected)

    async def files_are(expected: int) -> bool:
        return await count(second, "OBJ_FILES") == expected

    await eventually(lambda: are(6, 6), "the mirror has the content")
    await eventually(lambda: files_are(12), "the mirror has the files")
    for number, (key, log, last) in enumerate(zip(keys, logs, content, strict=True)):
        if number % 3:
            why: Why = "deleted" if number % 3 == 1 else "retention"
            await put_tombstone(first, key, "", why, 1, last)
            await purge(first, "EVENTS", log, last + 1)
    await eventually(lambda: are(2, 10), "all is erased, and at the origin tombstones have expired")
    code, output = await promote(places)
    assert code, output
    assert "EVENTS, " in output
    assert "--despite-origin" in output
    assert await count(second) == 10
    places.hub.kill()
    code, output = await promote(places)
    assert code == 0, output
    left = {key for key in keys if await last_entry_of(second, key)}
    assert left == {keys[0], keys[3]}
    assert await files_are(4)


async def test_a_barred_promotion_deletes_nothing(regions: tuple[LeafNode, Bus, Bus]) -> None:
    places, first, second = regions
    for bus in (first, second):
        bus.settings = bus.settings.model_copy(update={"event_streams": 2})
    await apply(first.js, first.settings, shrink=False)
    await create_mirrors(second.js, second.settings, HUB)
    for one in TENANTS:
        key = TaskKey(one, "a", f"0-{1:032x}")
        last = (await first.js.publish(first.subjects.event(key), b"content")).seq
        await put_tombstone(first, key, "", "retention", 600, last)

    async def is_level() -> bool:
        return (await second.js.stream_info("EVENTS")).state.messages == 4

    await eventually(is_level, "the mirror has the content and the tombstones")
    places.hub.kill()
    # One event stream in the settings, and two mirrors.
    code, output = await promote(places)
    assert code, output
    assert "HEADRACE_EVENT_STREAMS=2" in output
    assert await is_level()


async def test_mirrors_are_as_many_as_the_origins_streams(
    regions: tuple[LeafNode, Bus, Bus],
) -> None:
    places, first, second = regions
    more = first.settings.model_copy(update={"event_streams": 2})
    await apply(first.js, more, shrink=False)
    for wrong in (1, 3):
        settings = second.settings.model_copy(update={"event_streams": wrong})
        with pytest.raises(StreamsDiffer, match=f"has 2 event streams, .*_STREAMS is {wrong}"):
            await create_mirrors(second.js, settings, HUB)
    assert await second.js.streams_info() == []
    made = {one.stream for one in await create_mirrors(second.js, more, HUB)}
    assert made >= {"EVENTS", "EVENTS_1"}
    with pytest.raises(StreamsDiffer, match="has 2 event streams"):
        await create_mirrors(second.js, second.settings, HUB)
    places.hub.kill()
    assert {one.stream for one in await create_mirrors(second.js, more, HUB)} == made


async def promote(places: LeafNode, *more: str) -> tuple[int | None, str]:
    """Let the second region's mirrors become streams, as an operator does.

    Return the command's exit code and what it said.
    """
    words = "streams", "apply", "--promote", *more, "--nats-url", places.leaf.url
    command = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace_cli",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(command.communicate(), 120)
    return command.returncode, output.decode()


async def last_entry_of(bus: Bus, key: TaskKey) -> bytes:
    """Return the last content of a log; empty: none is left, but for a tombstone."""
    try:
        return (await bus.js.get_last_msg("EVENTS", bus.subjects.event(key))).data or b""
    except NotFoundError:
        return b""


async def test_mirrors_of_another_domain_are_reported(regions: tuple[LeafNode, Bus, Bus]) -> None:
    _, _, second = regions
    await create_mirrors(second.js, second.settings, HUB)
    with pytest.raises(StreamsDiffer, match=r"EVENTS, .* are mirrors of another domain"):
        await create_mirrors(second.js, second.settings, "hbu")
