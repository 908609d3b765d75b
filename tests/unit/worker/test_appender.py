"""What is said while an append is in flight goes into the next; nothing is lost or doubled."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.errors import BusUnavailable, Fenced
from headrace.model.events import Draft
from headrace.model.task import COMPLETED, WORKING
from headrace.sdk.errors import MalformedOutput, RunOver
from headrace_worker.append_ticks import AppendTicks, Start
from headrace_worker.appender import PRESSING, Appender, StampBase
from headrace_worker.pending_messages import BATCH
from tests.support.fake_log_writer import FakeLogWriter


class FakeWriter(FakeLogWriter):
    """Keeps what is appended, when it is let; fails as told."""

    def __init__(self, capacity: int = 100_000) -> None:
        self.capacity = capacity
        self.generation, self.sequence = 2, 2
        self.appends: list[tuple[list[bytes], Stamp]] = []
        self.asked = self.in_flight = self.most_in_flight = 0
        self.free = asyncio.Event()
        self.free.set()
        self.failures: list[Exception] = []

    async def append(self, drafts: Sequence[Draft], stamp: Stamp) -> None:
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await self.free.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        self.in_flight -= 1
        if self.failures:
            raise self.failures.pop(0)
        self.appends.append(([d.line(stamp.generation + n) for n, d in enumerate(drafts)], stamp))
        self.generation += len(drafts)
        self.sequence += 1

    @property
    def sizes(self) -> list[int]:
        return [len(lines) for lines, _ in self.appends]

    @property
    def states(self) -> list[str]:
        return [stamp.state for _, stamp in self.appends]


def event(name: object, size: int = 1) -> Draft:
    return Draft(f"{name}:".encode() + b"x" * size, b"")


class FakeTicks(AppendTicks):
    """Lets every append wait until the test ticks."""

    def __init__(self) -> None:
        super().__init__(1.0, asyncio.get_running_loop())
        self.starts: list[Start] = []

    def join(self, start: Start) -> bool:
        self.starts.append(start)
        return True

    def tick(self) -> None:
        starts, self.starts = self.starts, []
        for start in starts:
            start()


def make(
    writer: FakeWriter,
    lost: list[Exception] | None = None,
    max_events: int = 2000,
    max_bytes: int = 1_000_000,
    ticks: AppendTicks | None = None,
) -> Appender:
    return Appender(
        cast("LogWriter", writer),
        StampBase("log", "writer", 1, 1),
        (lost if lost is not None else []).append,
        lambda *_: None,
        lambda _: None,
        ticks=ticks or AppendTicks(0.0, asyncio.get_running_loop()),
        max_events=max_events,
        max_bytes=max_bytes,
        pause=0.0,
    )


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def in_flight(writer: FakeWriter, appender: Appender, *pending: Draft) -> None:
    """Have event 1 in an append until ``writer.free`` is set, and others wait behind it."""
    writer.free.clear()
    appender.offer(event(1))
    await settle()
    for draft in pending:
        appender.offer(draft)


async def test_an_idle_log_gets_an_event_at_once() -> None:
    writer = FakeWriter()
    appender = make(writer)
    appender.offer(event(1))
    await settle()
    assert writer.sizes == [1]


async def test_what_is_emitted_during_an_append_goes_into_the_next_one() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender)
    for number in range(2, 12):
        appender.offer(event(number))
        await settle()
    assert writer.asked == 1
    writer.free.set()
    await settle()
    assert writer.sizes == [1, 10]
    assert [stamp.generation for _, stamp in writer.appends] == [3, 4]


async def test_a_message_holds_a_bounded_number_of_events() -> None:
    writer = FakeWriter(capacity=10_000_000)
    appender = make(writer)
    for number in range(2 * BATCH + 1):
        appender.offer(event(number))
    await appender.close([], COMPLETED)
    assert writer.sizes == [BATCH, BATCH, 1]


async def test_a_message_holds_no_more_bytes_than_fit() -> None:
    writer = FakeWriter(capacity=1000)
    appender = make(writer)
    for number in range(10):
        appender.offer(event(number, size=300))
    await appender.close([event("end")], COMPLETED)
    assert all(len(b"\n".join(lines)) <= 1000 for lines, _ in writer.appends)
    assert sum(writer.sizes) == 11
    assert b"".join(line for lines, _ in writer.appends for line in lines).count(b":") == 11


async def test_an_event_that_fits_no_message_is_refused() -> None:
    appender = make(FakeWriter(capacity=1000))
    with pytest.raises(MalformedOutput, match="limit of 1000"):
        appender.offer(event(1, size=1000))


@pytest.mark.parametrize(("max_events", "max_bytes"), [(10, 1_000_000), (2000, 400)])
async def test_who_is_far_ahead_waits_until_the_log_has_caught_up(
    max_events: int, max_bytes: int
) -> None:
    writer = FakeWriter()
    appender = make(writer, max_events=max_events, max_bytes=max_bytes)
    await in_flight(writer, appender)
    answers = [appender.offer(event(number, size=20)) for number in range(10)]
    assert answers[0] is True
    assert answers[-1] is False
    waiting = asyncio.ensure_future(appender.drain())
    await settle()
    assert not waiting.done()
    writer.free.set()
    await asyncio.wait_for(waiting, 60)


async def test_only_the_last_append_carries_the_final_state() -> None:
    writer = FakeWriter()
    appender = make(writer)
    for number in range(BATCH):
        appender.offer(event(number))
    await appender.close([event("end")], COMPLETED)
    assert writer.states == [WORKING, COMPLETED]


async def test_output_and_end_of_a_quick_agent_are_one_append() -> None:
    writer = FakeWriter()
    appender = make(writer)
    appender.offer(event(1))
    await appender.close([event("end")], COMPLETED)
    assert writer.sizes == [2]


async def test_the_end_waits_for_the_append_in_flight() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender, event(2))
    closing = asyncio.ensure_future(appender.close([event("end")], COMPLETED))
    await settle()
    assert not closing.done()
    writer.free.set()
    await closing
    assert writer.sizes == [1, 2]
    assert writer.states == [WORKING, COMPLETED]


async def test_nothing_is_taken_after_the_end() -> None:
    appender = make(FakeWriter())
    await appender.close([event("end")], COMPLETED)
    with pytest.raises(RunOver):
        appender.offer(event("more"))


async def test_a_fenced_writer_is_informed_once_and_appends_nothing_more() -> None:
    writer, lost = FakeWriter(), list[Exception]()
    appender = make(writer, lost)
    writer.failures = [Fenced("another was first")]
    appender.offer(event(1))
    await settle()
    assert [type(loss) for loss in lost] == [Fenced]
    with pytest.raises(RunOver):
        appender.offer(event(2))
    with pytest.raises(Fenced):
        await appender.close([event("end")], COMPLETED)
    assert (writer.asked, writer.appends) == (1, [])


async def test_who_waits_for_room_is_let_go_by_a_loss() -> None:
    writer = FakeWriter()
    appender = make(writer, max_events=1)
    writer.failures = [Fenced("another was first")]
    await in_flight(writer, appender, event(2))
    waiting = asyncio.ensure_future(appender.drain())
    writer.free.set()
    await asyncio.wait_for(waiting, 60)


async def test_output_is_kept_while_nats_is_away() -> None:
    writer, lost = FakeWriter(), list[Exception]()
    appender = make(writer, lost)
    writer.failures = [BusUnavailable("away")] * 3
    appender.offer(event(1))
    await settle()
    appender.offer(event(2))
    await appender.close([event("end")], COMPLETED)
    lines = [line for lines, _ in writer.appends for line in lines]
    assert [line.split(b":")[0] for line in lines] == [b"1", b"2", b"end"]
    assert lost == []


async def test_muted_appenders_append_nothing_that_is_pending() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender, event(2))
    appender.abort()
    writer.free.set()
    await settle()
    assert writer.appends == []


async def test_a_last_event_comes_after_the_append_in_flight_and_drops_what_is_pending() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender, event(2))
    leaving = asyncio.ensure_future(appender.append_last(event("bye"), 5))
    await settle()
    writer.free.set()
    await leaving
    assert writer.sizes == [1, 1]
    assert writer.appends[-1][0][0].startswith(b"bye")


async def test_a_last_event_that_the_log_does_not_take_in_time_is_dropped() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender)
    await appender.append_last(event("bye"), 0.05)
    writer.free.set()
    await settle()
    assert writer.appends == []


async def test_a_checkpoint_ends_its_message_and_is_confirmed_when_that_is_stored() -> None:
    writer = FakeWriter()
    appender = make(writer)
    await in_flight(writer, appender, event(2))
    saving = asyncio.ensure_future(appender.deliver(event(3), checkpoint="{}"))
    await settle()
    appender.offer(event(4))
    assert not saving.done()
    writer.free.set()
    assert await saving == 5
    await settle()
    assert writer.sizes == [1, 2, 1]
    assert [stamp.checkpoint for _, stamp in writer.appends] == [None, "{}", None]


@pytest.mark.parametrize("what", ["checkpoint", "step"])
async def test_what_fits_no_header_is_refused_and_the_rest_is_stored(what: str) -> None:
    writer, lost = FakeWriter(), list[Exception]()
    appender = make(writer, lost)
    appender.offer(event(1))
    with pytest.raises(MalformedOutput, match=f"{what}.* bytes of headers.* limit of 16384"):
        await appender.deliver(event(2), **{what: "x" * 17_000})
    await appender.close([event("end")], COMPLETED)
    assert writer.sizes == [2]
    assert lost == []


async def test_a_client_that_waits_for_an_event_never_stored_is_informed() -> None:
    appender = make(FakeWriter())
    saving = asyncio.ensure_future(appender.deliver(event(1)))
    await asyncio.sleep(0)
    appender.abort()
    with pytest.raises(RunOver):
        await saving


async def test_text_waits_for_the_tick_and_is_appended_whole() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    appender.offer_text(event(2))
    await settle()
    assert writer.sizes == []
    ticks.tick()
    await settle()
    assert writer.sizes == [2]


async def test_text_that_the_ticks_do_not_take_is_appended_at_once() -> None:
    writer = FakeWriter()
    appender = make(writer)
    appender.offer_text(event(1))
    await settle()
    assert writer.sizes == [1]


async def test_any_other_event_is_appended_at_once_after_the_text_before_it() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    await settle()
    appender.offer(event(2))
    await settle()
    assert [line[:1] for lines, _ in writer.appends for line in lines] == [b"1", b"2"]
    ticks.tick()
    await settle()
    assert writer.sizes == [2]


async def test_an_awaited_event_does_not_wait_for_the_tick() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    assert await asyncio.wait_for(appender.deliver(event(2)), 60) == 4


async def test_the_end_does_not_wait_for_the_tick_and_comes_last() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    await appender.close([event("end")], COMPLETED)
    assert [line.split(b":")[0] for line in writer.appends[0][0]] == [b"1", b"end"]
    ticks.tick()
    await settle()
    assert writer.states == [COMPLETED]


async def test_an_agent_faster_than_ticks_does_not_wait_for_them() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    for number in range(PRESSING):
        appender.offer_text(event(number))
    await settle()
    assert writer.sizes == [PRESSING]


async def test_an_agent_without_room_does_not_wait_for_the_tick() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, max_events=1, ticks=ticks)
    assert not appender.offer_text(event(1))
    await asyncio.wait_for(appender.drain(), 60)
    await settle()
    assert writer.sizes == [1]


async def test_text_of_the_time_of_an_append_waits_for_the_next_tick() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    await in_flight(writer, appender)
    appender.offer_text(event(2))
    writer.free.set()
    await settle()
    assert writer.sizes == [1]
    ticks.tick()
    await settle()
    assert writer.sizes == [1, 1]


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_only_one_append_is_in_flight_where_no_tick_takes_the_text(turns: int) -> None:
    writer = FakeWriter()
    appender = make(writer)
    for n in range(60):
        appender.offer_text(event(n))
        for _ in range(turns):
            await asyncio.sleep(0)
    await appender.close([event("end")], COMPLETED)
    assert sum(writer.sizes) == 61
    assert writer.most_in_flight == 1


async def test_another_event_of_the_time_of_an_append_follows_it_at_once() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    await in_flight(writer, appender)
    appender.offer_text(event(2))
    appender.offer(event(3))
    writer.free.set()
    await settle()
    assert writer.sizes == [1, 2]


async def test_muted_appenders_append_nothing_at_the_tick() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    appender.abort()
    ticks.tick()
    await settle()
    assert writer.appends == []


async def test_text_is_appended_without_a_task() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    appender = make(writer, ticks=ticks)
    appender.offer_text(event(1))
    before = asyncio.all_tasks()
    ticks.tick()
    assert len(asyncio.all_tasks() - before) == 1  # the fake log's
    await settle()
    assert writer.sizes == [1]


async def test_an_append_that_fails_as_the_agent_is_muted_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = FakeWriter()
    writer.failures = [BusUnavailable("away")]
    appender = make(writer)
    # The answer is there, but has not been looked at: it can't be cancelled any more.
    monkeypatch.setattr(writer, "acked", lambda _: appender.abort())
    appender.offer(event(1))
    await settle()
    assert (writer.asked, writer.appends, appender.appending) == (1, [], False)


@pytest.mark.parametrize("fails", ["send", "acked"])
async def test_an_append_that_fails_unexpectedly_is_a_loss(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, lost = FakeWriter(), list[Exception]()
    appender = make(writer, lost)

    def fail(*_: object) -> None:
        raise KeyError("seq")

    monkeypatch.setattr(writer, fails, fail)
    saving = asyncio.ensure_future(appender.deliver(event(1)))
    await settle()
    assert [type(loss) for loss in lost] == [KeyError]
    with pytest.raises(RunOver):
        await saving
    with pytest.raises(KeyError):
        await appender.close([event("end")], COMPLETED)
