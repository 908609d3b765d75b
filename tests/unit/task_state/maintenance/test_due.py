import asyncio
import logging
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.server_clock import ServerClock
from headrace.model.errors import BusUnavailable, LogLost, LogTooNew, StateUnavailable
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from headrace_task_state.maintenance.due import CHECKED, RETRY_AFTER_MS, DueTasks, Upkeep, repeat
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.store import DueList, Fields, LeaseLost, Range


async def test_passes_go_on_after_an_outage_until_the_lease_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = BusUnavailable("NATS"), StateUnavailable("Redis"), BusUnavailable("NATS, still")
    outcomes = [None, *outage, None, StateUnavailable("Redis again"), LeaseLost("gone")]

    async def look() -> None:
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    with caplog.at_level(logging.INFO):
        await repeat(look, 0.0, "the sweep")
    assert not outcomes
    reasons = [one.removeprefix("the sweep is delayed: ") for one in caplog.messages]
    assert reasons == ["NATS", "Redis", "Redis again"]


async def test_a_pass_that_breaks_ends_the_duty() -> None:
    async def look() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await repeat(look, 0.0, "the sweep")


class ListOfOne:
    """Stands for a range's writer: one task is on the list until it is deferred."""

    def __init__(self) -> None:
        self.lease = SimpleNamespace(range=Range(0))
        self.deferred: int | None = 0

    async def due(self, _: DueList, until: int, __: int) -> list[str]:
        is_due = self.deferred is not None and self.deferred <= until
        return ["acme:t1"] if is_due else []

    async def fields(self, *_: str) -> list[Fields]:
        return [{"agent": "echo"}]

    async def defer(self, _: DueList, dues: Mapping[str, int | None]) -> None:
        [self.deferred] = dues.values()


class CountingWriter:
    """Stands for a range's writer: one list has a task that is due."""

    def __init__(self) -> None:
        self.questions = 0
        self.fails = False

    async def due_lists(self, lists: Iterable[DueList], _: int) -> set[DueList]:
        self.questions += 1
        await asyncio.sleep(0)
        if self.fails:
            raise StateUnavailable("Redis")
        return set(lists) & {DueList.CHILDREN}


async def test_passes_that_begin_together_ask_once_what_is_due() -> None:
    writer: Any = CountingWriter()
    bus = Bus(BusSettings())
    upkeep = Upkeep(bus, writer, ServerClock(bus), MaintenanceTiming())
    for round_ in (1, 2):
        are_due = await asyncio.gather(*map(upkeep.has_due, CHECKED))
        assert dict(zip(CHECKED, are_due, strict=True)) == {
            one: one is DueList.CHILDREN for one in CHECKED
        }
        assert writer.questions == round_
    writer.fails = True
    failed = await asyncio.gather(*map(upkeep.has_due, CHECKED), return_exceptions=True)
    assert [type(one) for one in failed] == [StateUnavailable] * len(CHECKED)
    assert writer.questions == 3


@pytest.mark.parametrize("error", [LogTooNew("later"), LogLost("gone")])
async def test_a_log_that_can_not_be_read_now_is_looked_at_soon_and_is_no_dead_letter(
    error: Exception,
) -> None:
    async def look(_: TaskKey, __: Fields) -> int | None:
        raise error

    writer: Any = ListOfOne()
    bus = Bus(BusSettings())
    upkeep = Upkeep(bus, writer, ServerClock(bus), MaintenanceTiming())
    tasks = DueTasks(upkeep, DueList.ENDED, look)
    # A letter could not be written: the bus is not connected.
    assert await tasks.go_through(1000) == 1
    assert writer.deferred == 1000 + RETRY_AFTER_MS
