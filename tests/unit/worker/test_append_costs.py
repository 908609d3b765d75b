"""What a token at a model's pace costs its worker, in numbers that are the same in every run.

Processor time varies on a shared machine; the numbers of messages, bytes and calls do not.
"""

import asyncio
from collections.abc import AsyncIterator

import nats
import prometheus_client
import pytest

import headrace
import headrace_worker
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.model.events import TextChunks
from headrace.model.task import COMPLETED, TaskKey, mint_log_id, mint_task_id
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender, StampBase
from tests.support.call_counter import CallCounter
from tests.support.memory_bus import memory_bus

RUNS, TICKS = 20, 10

CALLS = 42
"""Python functions called per token, from its offer to the end of its append, in the tick with the
fewest: on a busy machine others meet more turns of the loop. It was 40.5."""

BYTES = 220
"""Bytes of the message that stores a token of 5 characters, without headers; it was 215.2."""


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


def _lost(loss: Exception) -> None:
    raise AssertionError("an append failed") from loss


class Run:
    """A run that emits text."""

    def __init__(self, bus: Bus, ticks: AppendTicks) -> None:
        key = TaskKey("default", "agent", mint_task_id(3))
        self.writer = LogWriter(bus, key)
        self.text = TextChunks(key.task, "context", "text-1", {})
        authorship = StampBase(mint_log_id(), "writer", 1, 1)
        self.appender = Appender(
            self.writer,
            authorship,
            _lost,
            lambda *_: None,
            lambda _: None,
            ticks=ticks,
            max_events=100,
            max_bytes=100_000,
        )


async def _tick(runs: list[Run], generation: int) -> None:
    """Have each run emit a token, and wait until all are stored."""
    for run in runs:
        run.appender.offer_piece(run.text, "token")
    while any(run.writer.generation < generation for run in runs):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.005)


async def _calls_of_tick(runs: list[Run], generation: int) -> int:
    """Return how many functions are called while each run's next token is stored."""
    with CallCounter((headrace, headrace_worker, nats, prometheus_client)) as counter:
        await _tick(runs, generation)
    return counter.calls


async def test_a_token_costs_one_message_one_ack_and_few_calls(
    bus: Bus,
) -> None:
    ticks = AppendTicks(0.02, asyncio.get_running_loop(), least=0.0)
    runs = [Run(bus, ticks) for _ in range(RUNS)]
    await _tick(runs, 1)  # It also subscribes to the answers.
    before = dict(bus.connection.stats)
    calls = [await _calls_of_tick(runs, number + 2) for number in range(TICKS)]
    after, tokens = dict(bus.connection.stats), RUNS * TICKS
    spent = {name: (after[name] - before[name]) / tokens for name in before}
    for run in runs:
        await run.appender.close([run.text.draft("end")], COMPLETED)
    assert (spent["out_msgs"], spent["in_msgs"]) == (1, 1)
    assert spent["out_bytes"] <= BYTES
    assert min(calls) / RUNS <= CALLS
