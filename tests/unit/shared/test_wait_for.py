"""Waiting at start: aloud, once, and not for ever."""

import asyncio
import logging
from typing import Any, cast

import pytest
from nats.errors import SlowConsumerError

from headrace.jetstream.connection import BusTiming
from headrace.model.errors import BusUnavailable
from headrace.wait_for import wait_for
from tests.support.fake_bus import FakeBus


class Attempt:
    """Fails so many times, then succeeds."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left, self.error = failures, error

    async def __call__(self) -> None:
        self.left -= 1
        if self.left >= 0:
            raise self.error


async def test_what_comes_late_is_waited_for_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await wait_for("the sea", Attempt(5, ConnectionRefusedError("low tide")), 20, pause=0.01)
    assert [record.getMessage() for record in caplog.records] == ["waiting for the sea: low tide"]


async def test_what_is_there_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    await wait_for("the sea", Attempt(0, OSError()), 20, pause=0.01)
    assert caplog.records == []


async def test_what_does_not_come_is_given_up_with_the_last_reason() -> None:
    refused = "the sea did not answer within 0.1 s: low tide"
    with pytest.raises(BusUnavailable, match=refused) as error:
        await wait_for("the sea", Attempt(1000, OSError("low tide")), 0.1)
    assert isinstance(error.value.__cause__, OSError)


async def test_an_attempt_that_hangs_is_ended() -> None:
    with pytest.raises(BusUnavailable, match="TimeoutError"):
        await asyncio.wait_for(wait_for("the sea", lambda: asyncio.sleep(3600), 0.1), 60)


async def test_a_mistake_is_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        await wait_for("the sea", Attempt(1, ZeroDivisionError()), 20, pause=0.01)


async def test_a_flood_of_dropped_messages_is_one_disturbance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, disturbances = FakeBus(timing=BusTiming(settle=0.01)), []
    stop = bus.on_disturbance(lambda: disturbances.append(True))
    dropped = SlowConsumerError("s", "", 1, cast("Any", None))
    for _ in range(1000):
        await bus._on_error(dropped)
    await asyncio.sleep(0.05)
    assert disturbances == [True]
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    stop()
    bus._notify()
    assert disturbances == [True]


async def test_a_failing_receiver_is_logged_with_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await FakeBus()._on_error(KeyError("oh"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info
