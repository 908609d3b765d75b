import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.server_clock import ServerClock
from headrace.model.errors import BusUnavailable, LogLost, LogTooNew, StateUnavailable
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from headrace_task_state.maintenance.due import RETRY_AFTER_MS, DueTasks, Upkeep, repeat
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.store import DueList, Fields, LeaseLost, Range


async def test_passes_go_on_after_an_outage_until_the_lease_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes = [None, BusUnavailable("NATS"), StateUnavailable("Redis"), None, LeaseLost("gone")]

    async def look() -> None:
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    with caplog.at_level(logging.INFO):
        await repeat(look, 0.0, "the sweep")
    assert not outcomes
    assert caplog.messages == ["the sweep is delayed: NATS", "the sweep is delayed: Redis"]


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
