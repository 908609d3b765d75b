"""What a short run costs task state, in a number that a slow machine does not raise.

See `tests/unit/worker/test_run_costs.py` for what it costs its worker.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from nats.aio.client import Client

import headrace
import headrace_task_state
from headrace.jetstream.client import ReceivedMessage
from headrace.model.subjects import Subjects
from headrace.model.task import COMPLETED
from headrace_task_state import store_redis
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import read_arrival
from headrace_task_state.store import Lease, Progress, Range, TaskChange, TaskRemoval
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.encoding import MOST_BYTES, NewTaskBatch, encoded
from headrace_task_state.store_redis.store import Keys, RedisWriter
from tests.support.call_counter import CallCounter
from tests.support.legal_logs import LegalLog
from tests.support.task_states import new_key

type Changes = Sequence[TaskChange | TaskRemoval]

RUNS = 50

CALLS = 140.5
"""Python functions called per run of four messages, from these to the arguments for Redis. It was
140.2: 32 per message, and 14 for the row in its thread. What is done once per batch is in it with a
fiftieth each."""


def received(log: LegalLog, before: int) -> list[ReceivedMessage]:
    """Return a log's messages as a consumer delivers them, after `before` others."""
    messages = []
    for number, (stamp, body) in enumerate(log.entries, before + 1):
        lines = "".join(f"{name}: {value}\r\n" for name, value in stamp.headers().items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        reply = f"$JS.ACK.EVENTS.consumer.1.{number}.{number}.{number * 10**9}.0"
        subject = Subjects().event(log.key)
        nobody = cast("Client", None)  # Nobody answers them.
        messages.append(ReceivedMessage(nobody, subject, reply, body, block))
    return messages


def whole_run(context: str, text: str) -> LegalLog:
    """Return the log of a task that answers `text` and ends."""
    log = LegalLog(new_key(), context=context)
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("answer", text, {"agui_block_type": "text"})])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


def test_a_short_run_takes_few_calls() -> None:
    messages = list[ReceivedMessage]()
    for number in range(RUNS):
        messages += received(whole_run(f"context-{number}", "one"), len(messages))
    with CallCounter((headrace, headrace_task_state)) as counter:
        arrivals = [read_arrival(message) for message in messages]
        changes = Batches(Subjects(), 5, 30).build(arrivals, Progress()).changes
        together = NewTaskBatch.of(changes, "view:", "0")
        words = together.script_args()
    assert len(together.places) == RUNS
    assert len(words) > RUNS
    assert counter.calls / RUNS <= CALLS


class FakeRedis:
    """Answers scripts, and keeps their arguments."""

    def __init__(self, answers: list[object]) -> None:
        """Give these answers in turn."""
        self.arguments = list[Sequence[object]]()
        self._answers = answers

    async def run(self, _name: str, _keys: Sequence[str], arguments: Sequence[object]) -> object:
        """Take a script's arguments."""
        self.arguments.append(arguments)
        return self._answers.pop(0)


def ended(text: str) -> Changes:
    """Return a batch of one task that begins, answers `text` and ends."""
    arrivals = [read_arrival(message) for message in received(whole_run("context", text), 0)]
    return Batches(Subjects(), 5, 30).build(arrivals, Progress()).changes


def apply(changes: Changes, answers: list[object]) -> tuple[FakeRedis, int]:
    """Apply a batch; return what Redis was sent, and how many functions were called."""
    redis, place = FakeRedis(answers), Range(0)
    keys, lease = Keys.of("headrace", ""), Lease(place, "token", 1)
    writer = RedisWriter(cast("Connection", redis), keys, lease, [place], 30)
    with CallCounter((store_redis,)) as counter:
        asyncio.run(writer.apply(Progress(), Progress(), changes))
    return redis, counter.calls


@pytest.mark.parametrize(
    ("text", "answers", "most"),
    [
        pytest.param("a" * MOST_BYTES, [[[], []]], 20, id="too long for one text"),
        pytest.param("short", [b"occupied", [[], []]], 34, id="its place is occupied"),
    ],
)
def test_the_text_of_a_task_that_is_not_added_together_is_made_once(
    text: str, answers: list[object], most: int
) -> None:
    [change] = changes = ended(text)
    redis, calls = apply(changes, answers)
    assert list(redis.arguments[-1])[-3:] == list(encoded(change))
    assert calls <= most  # To make it again takes two calls more.
