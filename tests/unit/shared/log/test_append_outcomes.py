"""What an append may say came of it: "not stored" only if no try of it can still be stored."""

import asyncio
from collections.abc import AsyncIterator

import nats.errors
import orjson
import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.append import AppendResult
from headrace.model.errors import (
    BusUnavailable,
    Fenced,
    LogFull,
    NobodyListens,
    OutcomeUnknown,
)
from headrace.model.events import Json
from headrace.model.task import COMPLETED
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog

FULL = {"err_code": 10077, "code": 400, "description": "maximum bytes exceeded"}


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


@pytest.fixture
async def log(bus: Bus) -> TaskLog:
    log = TaskLog(bus)
    await log.begin()
    return log


def received(bus: Bus, answer: Json) -> Msg:
    return Msg(bus.connection, data=orjson.dumps(answer))


class Tries:
    """What becomes of each try to publish; the last outcome is that of all later ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bus: Bus, *outcomes: str) -> None:
        self._outcomes, self._bus, self._ask, self.count = list(outcomes), bus, bus.ask, 0
        monkeypatch.setattr(bus, "ask", self._answer)
        monkeypatch.setattr(Bus, "connected", property(lambda _: self._is_connected()))

    def _is_connected(self) -> bool:
        if self._outcomes[0] != "unsent":
            return True
        self._next()
        return False

    def _next(self) -> str:
        self.count += 1
        return self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]

    def _answer(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str]
    ) -> asyncio.Future[Msg]:
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        match self._next():
            case "stored":
                return self._ask(subject, payload, timeout, headers)
            case "stored, not acked":
                self._ask(subject, payload, timeout, headers)
                answer.set_exception(nats.errors.TimeoutError())
            case "timed out":
                answer.set_exception(nats.errors.TimeoutError())
            case "nobody":
                answer.set_exception(NobodyListens(subject))
            case "full":
                answer.set_result(received(self._bus, {"error": FULL}))
        return answer


async def failure(log: TaskLog, timeout: float = 0.0) -> BusUnavailable:
    with pytest.raises(BusUnavailable) as raised:
        await log.writer.append([log.text_event("text")], log.stamp(), timeout)
    return raised.value


@pytest.mark.parametrize("later", ["unsent", "nobody", "full"])
async def test_a_try_that_may_be_stored_late_makes_the_outcome_unknown(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    """Its log does not have it yet, and no later try was taken; the caller must not send anew."""
    tries = Tries(monkeypatch, bus, "timed out", later)
    assert isinstance(await failure(log, 0.2), OutcomeUnknown)
    assert tries.count > 1


@pytest.mark.parametrize("first", ["unsent", "nobody"])
async def test_what_was_never_sent_or_reached_nobody_is_not_stored(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    tries = Tries(monkeypatch, bus, first)
    error = await failure(log, 0.2)
    assert not isinstance(error, OutcomeUnknown)
    assert 1 < tries.count < 20, "each try waits a little longer"
    monkeypatch.undo()
    assert await log.append("text") == AppendResult(log.writer.sequence, 2)


@pytest.mark.parametrize("before", [(), ("unsent",), ("nobody",)])
async def test_a_full_stream_that_took_no_try_is_a_full_stream(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]
) -> None:
    Tries(monkeypatch, bus, *before, "full")
    assert type(await failure(log, 5.0)) is LogFull


async def test_a_try_that_was_stored_late_is_found_by_the_next(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = Tries(monkeypatch, bus, "timed out", "unsent", "stored")
    assert (await log.append("text")).generation == 2
    assert tries.count == 3


async def test_a_try_whose_ack_was_lost_is_found_and_not_sent_again(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = Tries(monkeypatch, bus, "stored, not acked")
    stored = await log.append("text")
    assert (stored.generation, tries.count) == (2, 1)
    assert [entry.sequence for entry in await log.read()][1:] == [stored.sequence]


@pytest.mark.parametrize(("outcome", "kind"), [("timed out", OutcomeUnknown), ("full", LogFull)])
async def test_an_outcome_that_cannot_be_looked_up_is_unknown_only_if_a_try_is_in_doubt(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch, outcome: str, kind: type
) -> None:
    async def unreadable(*_: object) -> None:
        raise BusUnavailable("no leader")

    monkeypatch.setattr("headrace.log.append.next_stored", unreadable)
    Tries(monkeypatch, bus, outcome)
    assert type(await failure(log)) is kind


async def test_an_append_that_another_writer_preceded_is_never_unknown(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = (await log.read())[-1]
    await log.behind(last, writer="other").append("first")
    Tries(monkeypatch, bus, "timed out")
    with pytest.raises(Fenced, match="other appended first"):
        await log.writer.append([log.text_event("text")], log.stamp(), 0.0)


async def test_nothing_is_appended_while_an_end_is_repeated(bus: Bus, log: TaskLog) -> None:
    """The two would expect the same sequence, and who is refused takes itself for fenced."""
    await log.append("end", state=COMPLETED)
    end = await last_entry(bus, log.key)
    assert end is not None
    repeating = asyncio.create_task(log.writer.repeat(end))
    await asyncio.sleep(0)
    assert not repeating.done()
    with pytest.raises(RuntimeError, match="two appends at a time"):
        log.writer.send([log.text_event("text")], log.stamp())
    await repeating
    assert (await log.append("behind")).sequence > end.sequence
