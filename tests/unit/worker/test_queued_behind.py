"""Messages that gateways queue between a holder's appends, wherever they come in."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.log import FencedBy, LogWriter
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable
from headrace.model.events import Draft, Json
from headrace.model.messages import Control
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import AUTH_REQUIRED, COMPLETED, SUBMITTED, WORKING
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender, GivesWay, StampBase
from headrace_worker.inputs import EarlierInputs, InputRefusal, Inputs
from tests.support.fake_log_writer import FakeLogWriter

HOLDER = StampBase("logid", "holder", 1, 1)


class FakeLog(FakeLogWriter):
    """A log, and the holder's way into it; what is lost of an answer is found when asked again."""

    def __init__(self) -> None:
        self.entries = [Entry(HOLDER.stamp(1), [b"{}"], 1, "")]
        self.sequence = self.generation = 1
        self.capacity = 600
        self.unknown: list[bool] = []

    async def append(self, drafts: Sequence[Draft], stamp: Stamp) -> None:
        lines = [draft.line(stamp.generation + n) for n, draft in enumerate(drafts)]
        await asyncio.sleep(0)
        is_lost = self.unknown.pop(0) if self.unknown else None
        if is_lost is None or is_lost:
            if self.sequence == len(self.entries):
                self._store(stamp, lines)
            there = self.entries[self.sequence]
            if (there.stamp, there.lines) != (stamp, lines):
                raise FencedBy(there)
        await asyncio.sleep(0)
        if is_lost is not None:
            raise BusUnavailable("no answer")
        self.continue_after(self.entries[self.sequence])

    def continue_after(self, last: Entry) -> None:
        self.sequence, self.generation = last.sequence, last.last_generation

    async def next_entry(self, _: float) -> Entry | None:
        await asyncio.sleep(0)
        return self.entries[self.sequence] if self.sequence < len(self.entries) else None

    def queue(self, name: str) -> None:
        """Append as a gateway does, unless the message is there."""
        last = self.entries[-1]
        if name not in self.names and not last.ends_run and last.stamp.run == 1:
            stamp = last.stamp._replace(generation=last.last_generation + 1, writer=name)
            draft = events.queued("task", "ctx", stamp.state, {"text": name}, None, name)
            self._store(stamp, [draft.line(stamp.generation)])

    def _store(self, stamp: Stamp, lines: list[bytes]) -> None:
        self.entries.append(Entry(stamp, lines, len(self.entries) + 1, ""))

    @property
    def told(self) -> list[Json]:
        """Events behind the first entry, each checked to have its generation."""
        received: list[Json] = []
        for entry in self.entries[1:]:
            for generation, line in enumerate(entry.lines, entry.generation):
                [event] = orjson.loads(line).values()
                assert event["metadata"][events.GENERATION] == generation == len(received) + 2
                received.append(event)
        return received

    @property
    def names(self) -> list[str]:
        return [e["metadata"][events.INPUT_ID] for e in self.told if self._is_queued(e)]

    @staticmethod
    def _is_queued(event: Json) -> bool:
        return events.QUEUED in event["metadata"]


def said(text: str) -> Draft:
    return events.status_update("task", "ctx", WORKING, None, {"said": text})


NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 4)),
        st.tuples(st.just("turn"), st.integers(1, 6)),
        st.tuples(st.just("take in"), NAMES),
        st.tuples(st.just("take in on a condition"), NAMES),
        st.tuples(st.just("queue"), NAMES),
        st.tuples(st.just("save"), st.just(0)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("lose an answer"), st.booleans()),
    ),
    max_size=25,
)


def holding(log: FakeLog, losses: list[Exception]) -> tuple[Appender, Inputs]:
    """Return the holder's way into `log`, and the messages that wait for it."""
    appender = Appender(
        cast("LogWriter", log),
        HOLDER,
        losses.append,
        lambda *received: inputs.overtaken(*received),  # noqa: PLW0108  # made below
        lambda _: None,
        ticks=AppendTicks(0.0, asyncio.get_running_loop()),
        max_events=1000,
        max_bytes=1_000_000,
        pause=0.0,
    )
    inputs = Inputs(appender, ("task", "ctx"), "enqueue", EarlierInputs([], []), lambda _: None)
    return appender, inputs


async def play(  # noqa: C901  # one case a step
    steps: list[tuple[str, Any]], at_the_end: list[str]
) -> None:
    log, losses = FakeLog(), list[Exception]()
    appender, inputs = holding(log, losses)
    taking: list[tuple[str, int | None, asyncio.Task[int | InputRefusal]]] = []
    saving: list[asyncio.Task[int]] = []
    texts: list[str] = []
    for step, what in steps:
        match step:
            case "say":
                for _ in range(what):
                    texts.append(str(len(texts)))
                    appender.offer(said(texts[-1]))
            case "turn":
                for _ in range(what):
                    await asyncio.sleep(0)
            case "take in" | "take in on a condition":
                at = appender.offered if "condition" in step else None
                control = Control(ask="input", input=what, message={"text": what}, if_generation=at)
                taking.append((what, at, asyncio.create_task(inputs.accept(control))))
                await asyncio.sleep(0)
            case "queue":
                log.queue(what)
            case "save":
                texts.append(str(len(texts)))
                last = appender.deliver(said(texts[-1]), checkpoint=texts[-1])
                saving.append(asyncio.create_task(last))
                await asyncio.sleep(0)
            case "ask":
                texts.append(str(len(texts)))
                appender.post(said(texts[-1]), state=AUTH_REQUIRED)
            case "look":
                appender.look()
            case _:
                log.unknown.append(what)
    queueing = asyncio.create_task(queue_at(log, at_the_end))
    await conclude(appender, inputs)
    await queueing
    assert losses == []
    received = log.told
    assert [e["metadata"]["said"] for e in received if "said" in e["metadata"]] == texts
    check_queue(log, [(name, at, await task) for name, at, task in taking])
    for saved in saving:
        generation = await saved
        entry = next(e for e in log.entries if e.last_generation >= generation)
        assert entry.last_generation == generation
        assert entry.stamp.checkpoint == received[generation - 2]["metadata"]["said"]
    check_end(log)


async def queue_at(log: FakeLog, names: list[str]) -> None:
    for name in names:
        log.queue(name)
        await asyncio.sleep(0)


async def conclude(appender: Appender, inputs: Inputs) -> None:
    """End as `headrace_worker.completion` does."""
    if not inputs.waiting:
        with suppress(GivesWay):
            end = events.status_update("task", "ctx", COMPLETED)
            await appender.close([end], COMPLETED, gives_way=lambda: bool(inputs.waiting))
            return
    await appender.close([], WORKING)
    named = list[QueuedMessage]()
    while True:
        named[:] = first, *others = inputs.waiting
        metadata = {"input": first.name, events.WAITING: [other.generation for other in others]}
        following = events.status_update("task", "ctx", SUBMITTED, first.message, metadata)
        with suppress(GivesWay):
            await appender.close([following], SUBMITTED, gives_way=lambda: inputs.waiting != named)
            return


def check_queue(log: FakeLog, taken: list[tuple[str, int | None, int | InputRefusal]]) -> None:
    received = log.told
    assert len(log.names) == len(set(log.names))
    for name, at, generation in taken:
        if isinstance(generation, InputRefusal):
            # One without a condition may have waited for one with a condition until the run's end.
            assert any(other == name and at is not None for other, at, _ in taken)
            assert generation.reason == ("over" if at is None else "generation")
        else:
            assert received[generation - 2]["metadata"][events.INPUT_ID] == name
            wanted = [at for other, at, _ in taken if other == name]
            if None not in wanted and writer_of(log, generation) == HOLDER.writer:
                assert generation - 1 in wanted


def writer_of(log: FakeLog, generation: int) -> str:
    return next(e.stamp.writer for e in log.entries if e.last_generation >= generation)


def check_end(log: FakeLog) -> None:
    received, last = log.told, log.entries[-1]
    queued = [n for n, event in enumerate(received, 2) if events.QUEUED in event["metadata"]]
    if last.stamp.state == COMPLETED:
        assert queued == []
        return
    assert last.stamp.state == SUBMITTED
    assert last.stamp.run == last.generation
    assert last.stamp.attempt == 0
    assert received[-1]["metadata"]["input"] == log.names[0]
    assert received[-1]["metadata"][events.WAITING] == queued[1:]


@given(STEPS, st.lists(NAMES, max_size=4))
@example([("take in on a condition", "a"), ("take in", "a")], ["b"])
def test_wherever_messages_are_queued_the_log_is_whole(
    steps: list[tuple[str, Any]], at_the_end: list[str]
) -> None:
    asyncio.run(play(steps, at_the_end))


async def test_another_attempts_entry_is_a_fence() -> None:
    log, losses = FakeLog(), list[Exception]()
    appender, _ = holding(log, losses)
    log.queue("a")
    last = log.entries[-1]
    stamp = last.stamp._replace(generation=last.last_generation + 1, writer="thief", attempt=2)
    draft = events.queued("task", "ctx", WORKING, {}, None, "b")
    log._store(stamp, [draft.line(stamp.generation)])
    appender.look()
    for _ in range(10):
        await asyncio.sleep(0)
    assert [type(loss) for loss in losses] == [FencedBy]
    assert len(log.entries) == 3


async def test_a_message_that_was_refused_for_anothers_condition_is_queued_without_one() -> None:
    log = FakeLog()
    _, inputs = holding(log, [])
    with_condition, without = (
        asyncio.create_task(
            inputs.accept(Control(ask="input", input="a", message={"text": "a"}, if_generation=at))
        )
        for at in (1, None)
    )
    log.queue("b")
    refusal = await with_condition
    assert isinstance(refusal, InputRefusal)
    assert (refusal.reason, refusal.generation) == ("generation", 2)
    assert await without == 3
    assert log.names == ["b", "a"]
