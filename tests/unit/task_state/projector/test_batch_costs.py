"""What a short run costs task state, in a number that a slow machine does not raise.

See `tests/unit/worker/test_run_costs.py` for what it costs its worker.
"""

from typing import cast

from nats.aio.client import Client

import headrace
import headrace_task_state
from headrace.jetstream.client import ReceivedMessage
from headrace.model.subjects import Subjects
from headrace.model.task import COMPLETED
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import read_arrival
from headrace_task_state.store import Progress
from headrace_task_state.store_redis.together import TasksTogether
from tests.support.call_counter import CallCounter
from tests.support.legal_logs import LegalLog
from tests.support.task_states import new_key

RUNS = 50

CALLS = 126.5
"""Python functions called per run of four messages, from these to the arguments for Redis. It was
126.2: 32 per message. What is done once per batch is in it with a fiftieth each."""


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


def test_a_short_run_takes_few_calls() -> None:
    messages = list[ReceivedMessage]()
    for number in range(RUNS):
        log = LegalLog(new_key(), context=f"context-{number}")
        log.submit("hello")
        log.begin_attempt()
        log.append([log.chunk("answer", "one", {"agui_block_type": "text"})])
        log.append([log.status(COMPLETED)], state=COMPLETED)
        messages += received(log, len(messages))
    with CallCounter((headrace, headrace_task_state)) as counter:
        arrivals = [read_arrival(message) for message in messages]
        changes = Batches(Subjects(), 5, 30).build(arrivals, Progress()).changes
        together = TasksTogether.of(changes, "view:", "0")
        words = together.words()
    assert len(together.places) == RUNS
    assert len(words) > RUNS
    assert counter.calls / RUNS <= CALLS
