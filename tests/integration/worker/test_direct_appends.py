"""Text that is appended with the headers of what was appended before: stored once, in order."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream.connection import Bus, BusTiming
from headrace.log import LogWriter, last_entry
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import Fenced
from headrace.model.events import TextChunks
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import COMPLETED, WORKING
from headrace.sdk.errors import RunOver
from headrace.settings import BusSettings
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender, StampBase
from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog, generations
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually

HASTY = BusTiming(ack=0.2, leader=0.2)
"""An answer is late after 0.2 s, so that tests need not wait long for what never comes."""


@pytest.fixture
async def proxy(nats_server: NatsProcess) -> AsyncIterator[NatsProxy]:
    async with NatsProxy(nats_server.port) as proxy:
        yield proxy


@pytest.fixture
async def bus(
    submitter: TaskSubmitter, names: dict[str, str], proxy: NatsProxy
) -> AsyncIterator[Bus]:
    """A connection through the proxy, to the streams that the submitter has made."""
    assert submitter.bus.connected
    bus = Bus(BusSettings.model_validate({"nats_url": proxy.url, **names}), timing=HASTY)
    await bus.connect("test")
    try:
        yield bus
    finally:
        await bus.close()


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of events of the appends whose headers are alike."""
    found: list[int] = []
    send = LogWriter.send_alike

    def counting(self: LogWriter, *args: object) -> bool:
        has_begun = send(self, *args)  # type: ignore[arg-type]  # whatever it takes
        if has_begun:
            found.append(args[2])  # type: ignore[arg-type]  # the number
        return has_begun

    monkeypatch.setattr(LogWriter, "send_alike", counting)
    return found


class Talk:
    """A run that says words, each in an append of its own unless one is in flight."""

    def __init__(self, log: TaskLog) -> None:
        self.log = log
        self.losses: list[Exception] = []
        self.queued: list[QueuedMessage] = []
        self.said: list[str] = []
        self.text = TextChunks(log.key.task, "context", "text-1", {})
        self.appender = Appender(
            log.writer,
            StampBase(log.id, log.name, 1, 1, "owner"),
            self.losses.append,
            lambda found, _: self.queued.extend(found),
            lambda _: None,
            ticks=AppendTicks(0.0, asyncio.get_running_loop()),
            max_events=1000,
            max_bytes=100_000,
            pause=0.01,
        )

    def say(self, *words: str) -> None:
        for word in words:
            self.appender.offer_piece(self.text, word)
            self.said.append(word)

    async def stored(self) -> None:
        """Wait until all that was said is stored."""

        async def is_stored() -> bool:
            return self.log.writer.generation == len(self.said) + len(self.queued) + 1

        await eventually(is_stored, "all is stored")

    async def end(self) -> None:
        last = events.status_update(self.log.key.task, "context", COMPLETED)
        await self.appender.close([last], COMPLETED)


@pytest.fixture
async def talk(bus: Bus) -> Talk:
    log = TaskLog(bus)
    await log.begin()
    talk = Talk(log)
    talk.say("first")  # the next ones are alike
    await talk.stored()
    return talk


def is_ack(frame: Frame) -> bool:
    return b'{"stream":' in frame and b'"seq":' in frame


def words(entries: list[Entry]) -> list[str]:
    """Return the pieces of text."""
    updates = [event.get("artifactUpdate") for entry in entries for event in entry.events]
    return [update["artifact"]["parts"][0]["text"] for update in updates if update]


async def check(talk: Talk) -> None:
    """What was said is in the log, once, in order."""
    entries = await talk.log.read()
    assert words(entries) == talk.said
    events_ = generations(entries)
    assert events_ == list(range(1, len(events_) + 1))
    assert talk.losses == []
    assert talk.log.bus.connection._answers == {}


async def test_words_are_stored_in_order(talk: Talk, direct: list[int]) -> None:
    talk.say("one", "two")
    await talk.stored()
    talk.say("\N{GRINNING FACE}", '"\\\n\x00')
    await talk.stored()
    await talk.end()
    assert direct == [2, 2]
    await check(talk)


async def test_words_whose_ack_is_lost_are_stored_once(
    talk: Talk, proxy: NatsProxy, direct: list[int]
) -> None:
    for number in range(3):
        proxy.lost.clear()
        proxy.lose_next(is_ack)
        talk.say(f"unheard {number}")
        await asyncio.sleep(0)
        talk.say("next")
        await talk.stored()
        assert len(proxy.lost) == 1
    await talk.end()
    assert len(direct) >= 3
    await check(talk)


async def test_words_that_are_late_are_stored_once(
    talk: Talk, proxy: NatsProxy, direct: list[int]
) -> None:
    proxy.hold()
    talk.say("late")
    await asyncio.sleep(0.7)  # Several of it are on their way by now.
    talk.say("behind")
    proxy.release()
    await talk.end()
    assert direct[0] == 1
    await check(talk)


async def test_words_in_flight_when_the_connection_ends_are_stored_once(
    talk: Talk, proxy: NatsProxy, direct: list[int]
) -> None:
    for number in range(3):
        proxy.hold()
        talk.say(f"cut {number}")
        await asyncio.sleep(0.02)
        await proxy.cut()
        talk.say("offline")
        proxy.release()
        await talk.stored()
    await talk.end()
    assert len(direct) >= 3
    await check(talk)


async def test_who_was_overtaken_is_mute(talk: Talk, direct: list[int]) -> None:
    last = await last_entry(talk.log.bus, talk.log.key)
    assert last is not None
    await talk.log.behind(last, writer="newcomer").append("mine now")
    talk.say("zombie")

    async def is_lost() -> bool:
        return bool(talk.losses)

    await eventually(is_lost, "the run has learned of it")
    assert isinstance(talk.losses[0], Fenced)
    with pytest.raises(RunOver):
        talk.say("still here")
    assert direct == [1]
    assert words(await talk.log.read()) == ["first"]


async def test_words_come_behind_a_message_that_was_queued_before_them(
    talk: Talk, direct: list[int]
) -> None:
    last = await last_entry(talk.log.bus, talk.log.key)
    assert last is not None
    other = talk.log.behind(last, writer="gateway")
    stamp = last.stamp._replace(generation=last.last_generation + 1, writer="gateway")
    queued = events.queued(talk.log.key.task, "context", stamp.state, {}, None, "b")
    await other.writer.append([queued], stamp)
    talk.say("behind it", "and this")
    await talk.stored()
    await talk.end()
    assert direct == [2, 2]
    assert [each.generation for each in talk.queued] == [3]
    await check(talk)


async def test_an_end_in_flight_leaves_nothing_behind(
    talk: Talk, proxy: NatsProxy, direct: list[int]
) -> None:
    proxy.hold()
    talk.say("in flight")
    await asyncio.sleep(0.02)
    talk.appender.abort()
    await asyncio.sleep(0.02)
    assert direct == [1]
    assert not talk.appender.appending
    assert talk.log.bus.connection._answers == {}
    proxy.release()
    with pytest.raises(RunOver):
        talk.say("more")
    with pytest.raises(RunOver):
        await talk.end()


async def test_an_end_right_behind_another_ones_waits_for_nothing(
    talk: Talk, proxy: NatsProxy
) -> None:
    proxy.hold()
    talk.say("in flight")
    await asyncio.sleep(0.02)
    talk.appender.abort()
    assert talk.appender.appending
    with pytest.raises(RunOver):
        await asyncio.wait_for(talk.end(), 60)
    proxy.release()


async def test_a_run_that_hands_its_task_back_while_words_are_in_flight(
    talk: Talk, proxy: NatsProxy
) -> None:
    proxy.hold()
    talk.say("before")
    await asyncio.sleep(0.02)
    assert talk.appender.appending
    last = events.status_update(talk.log.key.task, "context", WORKING)
    ending = asyncio.create_task(talk.appender.append_last(last, 30.0))
    await asyncio.sleep(0.02)
    proxy.release()
    await ending
    assert generations(await talk.log.read()) == [1, 2, 3, 4]
