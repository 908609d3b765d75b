"""Which agents there are, and which of them somebody serves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

import orjson
import pytest
from nats.aio.msg import Msg

from headrace.directory import AgentCard, Announcer, Directory, DirectoryTiming
from headrace.jetstream.api import store_with_retries
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, ReplicaValue
from headrace.jetstream.streams import ensure_streams
from headrace.model.errors import InvalidName
from tests.support.delete_stream import delete_stream
from tests.support.jetstream_api import answered
from tests.support.waiting import eventually, soon

LASTING = DirectoryTiming(instance_ttl=3600, read_interval=0.1)


@pytest.fixture
def timing() -> DirectoryTiming:
    return LASTING


@pytest.fixture
async def directory(own: Bus, timing: DirectoryTiming) -> AsyncIterator[Directory]:
    directory = Directory(own, timing)
    await directory.start()
    yield directory
    await directory.stop()


def served_by(directory: Directory) -> set[str]:
    return directory.content.instances.get("echo", set())


async def put(bus: Bus, key: str, value: bytes) -> None:
    await store_with_retries(bus, f"$KV.{bus.streams.agents}.{key}", value)


async def knows(directory: Directory, instances: int) -> bool:
    """Read the bucket; tell whether the replica that answered has all instances of echo."""
    await directory.read()
    return len(served_by(directory)) == instances


async def test_an_announced_agent_is_listed_with_its_card(own: Bus, directory: Directory) -> None:
    card = AgentCard(name="echo", description="says it again", output_modes=["text/plain"])
    assert directory.card("echo") is None
    assert not directory.available("echo")
    await Announcer(own, "worker-1", LASTING).announce(card)
    await soon(lambda: directory.available("echo"), "echo is served")
    assert directory.card("echo") == card
    assert directory.cards() == [card]


async def test_a_card_that_takes_the_place_of_another_one_is_spoken_of(
    own: Bus, directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    one = AgentCard(name="echo", description="says it again")
    other = AgentCard(name="echo", description="shouts", follow_ups="reject")
    with caplog.at_level(logging.WARNING, "headrace.directory"):
        await Announcer(own, "worker-1", LASTING).announce(one)
        await Announcer(own, "worker-2", LASTING).announce(one)
        assert caplog.messages == []
        await Announcer(own, "worker-3", LASTING).announce(other)
    assert caplog.messages == ["the card of agent echo has changed: description, follow_ups"]
    await soon(lambda: directory.card("echo") == other, "the last card is the agent's")


async def test_the_first_route_is_stored_and_a_new_version_changes_nothing(own: Bus) -> None:
    gateways = [Directory(own, LASTING, stores_routes=True) for _ in range(2)]
    cards = [AgentCard(name="echo", version=version, pinned=True) for version in ("2", "1")]
    for number, card in enumerate(cards):
        await Announcer(own, f"worker-{number}", LASTING).announce(card)
        await eventually(partial(knows, gateways[number], number + 1), "the copy is current")
    routes = [gateway.route("echo") for gateway in gateways]
    assert [route.current for route in routes] == ["2", "2"]
    last = gateways[1]
    assert (last.card("echo"), last.available("echo")) == (cards[0], True)
    assert [last.serving("echo", card.version) for card in cards] == [{"worker-0"}, {"worker-1"}]
    assert list(last.versions("echo").values()) == cards


async def test_an_agent_without_workers_stays_registered_for_a_time(
    own: Bus, directory: Directory
) -> None:
    announcer = Announcer(own, "worker-1", LASTING)
    await announcer.announce(AgentCard(name="echo"))
    await soon(lambda: directory.available("echo"), "echo is served")
    await announcer.withdraw("echo")
    await soon(lambda: not directory.available("echo"), "echo is served no more")
    assert directory.card("echo") is not None
    briefly = Announcer(own, "worker-1", replace(LASTING, card_ttl=1))
    await briefly.announce(AgentCard(name="echo"))
    await briefly.withdraw("echo")
    await soon(lambda: directory.card("echo") is None, "echo is forgotten")


@pytest.mark.parametrize("timing", [replace(LASTING, instance_ttl=2)])
async def test_an_instance_whose_key_nats_keeps_for_ever_is_gone_all_the_same(
    own: Bus, directory: Directory
) -> None:
    announcer = Announcer(own, "worker-1", LASTING)
    await announcer.announce(AgentCard(name="echo"))
    await announcer.withdraw("echo")
    await put(own, "live.echo.ghost", b"{}")
    await soon(lambda: served_by(directory) == {"ghost"}, "the key is taken for an instance")
    await soon(lambda: not directory.available("echo"), "echo is served no more")
    await put(own, "live.echo.ghost", b"{}")
    await soon(lambda: directory.available("echo"), "who renews it is there again")


async def test_each_instance_is_listed_with_the_agents_that_it_serves(
    own: Bus, directory: Directory
) -> None:
    for worker, agents in {"one": ("b", "a"), "two": ("b",)}.items():
        for agent in agents:
            await put(own, f"live.{agent}.{worker}", b"{}")
    expected = {"one": ("a", "b"), "two": ("b",)}
    await soon(lambda: directory.agents_by_worker() == expected, "both are listed")
    assert {name: one.agents for name, one in directory.workers().items()} == expected
    assert directory.workers_to_ask() == {"one": "a", "two": "b"}


async def test_who_starts_later_knows_what_was_announced_before(own: Bus) -> None:
    for name in ("b", "a"):
        await Announcer(own, "worker-1", LASTING).announce(AgentCard(name=name))
    late = Directory(own, LASTING)
    await late.start()
    await soon(lambda: late.available("a"), "the last that was announced is known")
    assert [card.name for card in late.cards()] == ["a", "b"]
    await late.stop()


@pytest.mark.parametrize("timing", [replace(LASTING, instance_ttl=3)])
async def test_an_instance_that_renews_no_more_is_gone_after_its_time(
    own: Bus, directory: Directory, timing: DirectoryTiming
) -> None:
    announcer = Announcer(own, "worker-1", timing)
    await announcer.announce(AgentCard(name="echo"))
    in_time, clock = 0, asyncio.get_running_loop().time
    while in_time < 8:
        renewed = clock()
        await announcer.renew("echo")
        await asyncio.sleep(0.5)
        is_kept = directory.available("echo")
        # On a busy machine a renewal may itself be late.
        if clock() - renewed < timing.instance_ttl / 3:
            in_time += 1
            assert is_kept, "renewing keeps it"
        else:
            await announcer.renew("echo")
            await soon(lambda: directory.available("echo"), "echo is served again")
    await soon(lambda: not directory.available("echo"), "nobody serves echo")
    assert directory.card("echo") is not None, "an agent without workers is known"


@pytest.mark.parametrize("timing", [replace(LASTING, read_interval=3600.0)])
async def test_a_withdrawn_instance_is_gone_at_once_and_another_one_stays(
    own: Bus, directory: Directory
) -> None:
    first, second = Announcer(own, "worker-1", LASTING), Announcer(own, "worker-2", LASTING)
    for announcer in (first, second):
        await announcer.announce(AgentCard(name="echo"))
    await soon(lambda: served_by(directory) == {"worker-1", "worker-2"}, "two serve echo")
    await first.withdraw("echo")
    await soon(lambda: served_by(directory) == {"worker-2"}, "one serves echo")
    await second.withdraw("echo")
    await soon(lambda: not directory.available("echo"), "nobody serves echo")


class LateBucket(Bucket):
    """A bucket whose replica shows a change only to the second look at it."""

    async def entries(
        self,
        pattern: str = ">",
        since: datetime | None = None,
        *,
        after: int = 0,
        is_latest: bool = False,
    ) -> dict[str, ReplicaValue | None]:
        now = await super().entries(pattern, since, after=after, is_latest=is_latest)
        shown, self._before = getattr(self, "_before", now), now
        return shown


async def test_what_a_replica_shows_late_is_seen_by_a_second_look(own: Bus) -> None:
    timing = replace(LASTING, read_interval=3600.0)
    directory = Directory(own, timing, bucket=LateBucket(own, own.streams.agents))
    await directory.start()
    announcer = Announcer(own, "worker-1", LASTING)
    try:
        await announcer.announce(AgentCard(name="echo"))
        await soon(lambda: served_by(directory) == {"worker-1"}, "echo is served", timeout=15)
        await announcer.withdraw("echo")
        await soon(lambda: not directory.available("echo"), "nobody serves echo", timeout=15)
    finally:
        await directory.stop()


class CountedBucket(Bucket):
    """A bucket that notes how many entries each read has found."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, bus.streams.agents)
        self.found = list[int]()

    async def entries(
        self,
        pattern: str = ">",
        since: datetime | None = None,
        *,
        after: int = 0,
        is_latest: bool = False,
    ) -> dict[str, ReplicaValue | None]:
        entries = await super().entries(pattern, since, after=after, is_latest=is_latest)
        self.found.append(len(entries))
        return entries


async def test_nothing_is_read_for_a_time_while_all_instances_are_heard(own: Bus) -> None:
    await Announcer(own, "worker-1", LASTING).announce(AgentCard(name="echo"))
    bucket = CountedBucket(own)
    directory = Directory(own, replace(LASTING, read_interval=0.5), bucket=bucket)
    await directory.start()
    without_read = 0
    while without_read < 12:
        look, reads = directory.next_read, len(bucket.found)
        await put(own, "live.echo.worker-1", b"{}")
        await asyncio.wait_for(look.wait(), 30)
        without_read += len(bucket.found) == reads
    await directory.stop()
    assert served_by(directory) == {"worker-1"}
    assert 2 in bucket.found[1:], "all of it is read at times"


async def test_what_is_new_is_read_while_an_instance_is_not_heard(own: Bus) -> None:
    await Announcer(own, "worker-1", LASTING).announce(AgentCard(name="echo"))
    bucket = CountedBucket(own)
    directory = Directory(own, LASTING, bucket=bucket)
    await directory.start()
    await soon(lambda: len(bucket.found) > 4, "each look reads")
    await directory.stop()


async def test_an_instance_that_renews_with_another_version_is_read(own: Bus) -> None:
    directory = Directory(own, replace(LASTING, read_interval=3600.0))
    await put(own, "live.echo.one", b"{}")
    await directory.start()
    await put(own, "live.echo.one", b'{"version":"2"}')
    await soon(lambda: directory.serving("echo", "2") == {"one"}, "the other version is seen")
    await directory.stop()


class Unhinted(Directory):
    """Receives none of the hints."""

    def _on_hint(self, msg: Msg) -> None:
        """Lose it."""


async def test_after_a_disturbance_what_was_not_heard_is_read(own: Bus) -> None:
    directory = Unhinted(own, replace(LASTING, read_interval=3600.0))
    await directory.start()
    await put(own, "card.echo", AgentCard(name="echo").encode())
    own._notify()
    await soon(lambda: directory.card("echo") is not None, "the card is seen")
    await directory.stop()


class OvertakenBucket(Bucket):
    """A bucket whose first read of what is new ends after more was written and `meanwhile`."""

    meanwhile: Callable[[], Awaitable[None]]
    later: AgentCard
    reads = 0

    async def entries(
        self,
        pattern: str = ">",
        since: datetime | None = None,
        *,
        after: int = 0,
        is_latest: bool = False,
    ) -> dict[str, ReplicaValue | None]:
        self.reads += bool(after)
        if after:
            await put(self._bus, "live.echo.one", b"{}")
        found = await super().entries(pattern, since, after=after, is_latest=is_latest)
        if after and self.reads == 1:
            await put(self._bus, "card.echo", self.later.encode())
            await put(self._bus, "card.other", AgentCard(name="other").encode())
            await self.meanwhile()
        return found


async def test_a_read_that_overtakes_that_of_what_is_new_hides_nothing_of_it(own: Bus) -> None:
    first, second, third = (AgentCard(name="echo", description=each) for each in "123")
    bucket = OvertakenBucket(own, own.streams.agents)
    directory = Unhinted(own, LASTING, bucket=bucket)
    bucket.meanwhile, bucket.later = directory.read, third
    await put(own, "card.echo", first.encode())
    await put(own, "live.echo.one", b"{}")
    await directory.start()
    await put(own, "card.echo", second.encode())
    await soon(lambda: bucket.reads > 2, "what is new was read three times")
    assert directory.card("echo") == third
    await directory.stop()


async def test_nothing_is_left_of_a_withdrawn_instance(own: Bus) -> None:
    announcer = Announcer(own, "worker-1", replace(LASTING, instance_ttl=1))
    await announcer.announce(AgentCard(name="echo"))
    await announcer.withdraw("echo")

    async def only_the_card() -> bool:
        info = await answered(lambda: own.js.stream_info(f"KV_{own.streams.agents}"))
        return info.state.messages == 1

    await eventually(only_the_card, "the mark of the deletion is gone")


async def test_an_unreadable_card_is_skipped_and_spoken_of_once(
    own: Bus, directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    await put(own, "card.broken", b"{")
    await put(own, "card.foreign", orjson.dumps({"name": "echo", "description": "not echo's"}))
    await put(own, "something.else", b"{}")
    await put(own, "live", b"{}")
    await Announcer(own, "worker-1", LASTING).announce(AgentCard(name="echo"))
    await soon(lambda: directory.available("echo"), "echo is served")
    await asyncio.sleep(0.5)
    assert [card.name for card in directory.cards()] == ["echo"]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 3
    await put(own, "card.broken", AgentCard(name="broken").encode())
    await soon(lambda: directory.card("broken") is not None, "the card is mended")


async def test_keys_of_no_instance_are_skipped_and_spoken_of_once(
    own: Bus, directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    for malformed in ("live.echo", "live.echo.worker-1.more"):
        await put(own, malformed, b"{}")
        await Bucket(own, own.streams.agents).delete(f"{malformed}.gone")
    await Announcer(own, "worker-2", LASTING).announce(AgentCard(name="echo"))
    await soon(lambda: directory.available("echo"), "echo is served")
    await asyncio.sleep(0.5)
    assert served_by(directory) == {"worker-2"}
    assert directory.content.leaving == {"gone": "echo"}
    warnings = [r.getMessage() for r in caplog.records if "is no instance's" in r.getMessage()]
    assert len(warnings) == 3


async def test_a_large_fleet_is_listed_whole(own: Bus) -> None:
    for start in range(0, 1200, 300):
        keys = [f"live.agent-{n % 20}.worker-{n}" for n in range(start, start + 300)]
        await asyncio.gather(*(put(own, key, b"{}") for key in keys))
    directory = Directory(own, LASTING)
    await directory.start()

    def count() -> int:
        return sum(map(len, directory.content.instances.values()))

    await soon(lambda: count() >= 1200, "all instances are listed")
    assert count() == 1200
    await directory.stop()


async def test_what_was_known_stays_known_while_the_bucket_is_away(
    own: Bus, directory: Directory
) -> None:
    await Announcer(own, "worker-1", LASTING).announce(AgentCard(name="echo"))
    await soon(lambda: directory.card("echo") is not None, "echo is known")
    await delete_stream(own.js, f"KV_{own.streams.agents}")
    await asyncio.sleep(0.5)
    assert directory.card("echo") is not None
    await ensure_streams(own.js, own.settings)


async def test_an_agent_s_name_must_be_one(own: Bus) -> None:
    for name in ("", "two words", "a.b", "-", "x" * 65):
        with pytest.raises(InvalidName):
            await Announcer(own, "worker-1", LASTING).announce(AgentCard(name=name))
