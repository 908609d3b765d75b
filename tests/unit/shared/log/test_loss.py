"""A log is lost when the leader said so twice: once it may be one that has just thawed."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.jetstream.connection import BusTiming
from headrace.log.read import check_reaches
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.task import TaskKey, mint_task_id
from tests.support.fake_bus import FakeBus

KEY = TaskKey("tenant", "agent", mint_task_id(0))

NOTHING: dict[str, Any] = {"error": {"code": 404, "err_code": 10037}}
NO_LEADER = BusUnavailable("no answer")


def message(sequence: int) -> dict[str, Any]:
    data = base64.b64encode(b"x").decode()
    return {"message": {"subject": "s", "seq": sequence, "data": data, "time": ""}}


def bus_that_says(*answers: dict[str, Any] | BusUnavailable) -> FakeBus:
    remaining: Iterator[dict[str, Any] | BusUnavailable] = iter(answers)
    return FakeBus(lambda *_: next(remaining), BusTiming(retry=0.0, confirmation=0.0))


@pytest.mark.parametrize(
    "answers",
    [
        [message(10)],
        [message(11)],
        [NOTHING, message(10)],
        [message(9), message(10)],
        [NO_LEADER, NOTHING, NO_LEADER, message(12)],
    ],
)
async def test_a_log_that_reaches_is_not_lost(
    answers: list[dict[str, Any] | BusUnavailable],
) -> None:
    bus = bus_that_says(*answers)
    await check_reaches(bus, KEY, 10)
    assert len(bus.asked) == len(answers)


@pytest.mark.parametrize("answers", [[NOTHING, NOTHING], [message(9), NOTHING]])
async def test_a_log_that_ends_before_is_lost(answers: list[dict[str, Any]]) -> None:
    with pytest.raises(LogLost, match="ends before sequence 10"):
        await check_reaches(bus_that_says(*answers), KEY, 10)


async def test_the_answer_is_unknown_without_a_leader() -> None:
    with pytest.raises(BusUnavailable):
        await check_reaches(FakeBus(), KEY, 10, timeout=0.0)
