"""A log is empty when a leader says so that leads: one that has just thawed may have missed it."""

import base64
from typing import Any

import pytest

from headrace.jetstream.connection import BusTiming
from headrace.log.read import last_stored
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey, mint_task_id
from tests.support.fake_bus import FakeBus

KEY = TaskKey("tenant", "agent", mint_task_id(0))
SECOND = 1_000_000_000

NOTHING: dict[str, Any] = {"error": {"code": 404, "err_code": 10037}}
NO_LEADER: dict[str, Any] = {"error": {"code": 503, "err_code": 10008}}
STORED: dict[str, Any] = {
    "message": {"subject": "s", "seq": 7, "data": base64.b64encode(b"x").decode(), "time": ""}
}


def info(*active: float, messages: int = 0) -> dict[str, Any]:
    """Return what a leader says that heard from its followers so many seconds ago."""
    subjects = {"subjects": {"s": messages}} if messages else {}
    replicas = [{"name": "n", "active": seconds * SECOND} for seconds in active]
    return {"state": subjects, "cluster": {"leader": "l", "replicas": replicas}}


ALONE: dict[str, Any] = {"state": {}}
TWICE = [info(0.2, 0.3)] * 2
"""A leader with followers is asked twice: the first time it may have read their old answers."""


def bus_that_says(*answers: dict[str, Any]) -> FakeBus:
    remaining = list(answers)
    return FakeBus(lambda *_: remaining.pop(0), BusTiming(retry=0.0, deposition=0.0))


@pytest.mark.parametrize(
    "answers",
    [
        [NOTHING, ALONE],
        [NOTHING, *TWICE],
        [NOTHING, info(0.2, 60), info(0.2, 60)],
        [NOTHING, info(5, 60), NOTHING, *TWICE],
        [NOTHING, NO_LEADER, NOTHING, *TWICE],
        [NOTHING, info(0.2, 0.3), NO_LEADER, NOTHING, *TWICE],
    ],
)
async def test_the_answer_of_a_current_leader_counts(answers: list[dict[str, Any]]) -> None:
    bus = bus_that_says(*answers)
    assert await last_stored(bus, KEY) is None
    assert len(bus.asked) == len(answers)


@pytest.mark.parametrize(
    "answers",
    [
        [NOTHING, info(0.2, 0.3, messages=1), STORED],
        [NOTHING, info(6, 6), STORED],
        [NOTHING, NO_LEADER, STORED],
        [NOTHING, info(0.2, 0.3), info(6, 6), STORED],
        [NOTHING, info(0.2, 0.3), info(0.2, 0.3, messages=1), STORED],
    ],
)
async def test_entries_that_a_former_leader_lacks_are_found(
    answers: list[dict[str, Any]],
) -> None:
    bus = bus_that_says(*answers)
    found = await last_stored(bus, KEY)
    assert found is not None
    assert found.sequence == 7
    assert len(bus.asked) == len(answers)


async def test_a_stream_without_a_leader_is_not_reported_empty() -> None:
    answers = [NOTHING, info(6, 6)]
    bus = FakeBus(lambda *_: answers[len(bus.asked) % 2 - 1])
    with pytest.raises(BusUnavailable, match="has no contact with most replicas"):
        await last_stored(bus, KEY, timeout=0.05)
