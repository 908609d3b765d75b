"""Who keeps the loop to itself is made to pause; who shares it is not."""

import asyncio

import pytest

from headrace_worker import emitter as module
from headrace_worker.emitter import LoopTurns


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


async def test_a_turn_is_due_when_the_loop_has_had_none(clock: Clock) -> None:
    breath = LoopTurns()
    answers = []
    for _ in range(4):
        clock.now += 0.03
        answers.append(breath.is_due())
    assert answers == [False, True, True, True]


async def test_none_is_due_while_the_loop_gets_its_turns(clock: Clock) -> None:
    breath = LoopTurns()
    for _ in range(4):
        clock.now += 0.03
        assert not breath.is_due()
        await asyncio.sleep(0)


async def test_none_is_due_within_a_moment(clock: Clock) -> None:
    breath = LoopTurns()
    for _ in range(10):
        clock.now += 0.001
        assert not breath.is_due()


async def test_taking_it_gives_the_loop_a_turn(clock: Clock) -> None:
    breath = LoopTurns()
    for _ in range(2):
        clock.now += 0.03
        breath.is_due()
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await breath.yield_if_due()
    assert turns == [1]
    clock.now += 0.03
    assert not breath.is_due()
