"""What a token costs task state, and that only tokens are read at that cost.

Calls of functions are the same in every run; processor time on a shared machine is not.
"""

import re
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

import headrace
import headrace_task_state
from headrace.jetstream.client import ReceivedMessage
from headrace.jetstream.headers import EXPECTED
from headrace.model.subjects import Subjects
from headrace.model.task import COMPLETED
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import Consumer, read_arrival
from headrace_task_state.projector.delta import LEARNT_FROM
from headrace_task_state.store import Progress
from tests.support.call_counter import CallCounter
from tests.support.fake_bus import message
from tests.support.legal_logs import LegalLog
from tests.support.task_states import new_key
from tests.unit.task_state.projector.test_consumer import FakeServer

LOGS, TOKENS = 20, 20

CALLS = 7.8
"""Python functions called per token, from its delivery to its batch. It was 7.65, with a
twentieth of what is done per task and batch. Read wholly, it was 22.3."""


def started() -> LegalLog:
    """Return a log of which a frame is known, if its entries are read one by one."""
    log = LegalLog(new_key(), context="context")
    log.submit("hello")
    log.begin_attempt()
    for _ in range(LEARNT_FROM + 2):
        say(log, "before ")
    return log


def say(log: LegalLog, text: str = "token") -> None:
    """Append a token."""
    log.append([log.chunk("answer", text, {"agui_block_type": "text"})])


def delivered(logs: Sequence[LegalLog], before: int = 0) -> list[ReceivedMessage]:
    """Return what logs have, one message of each in turn, and leave them without it."""
    entries = [(log, *entry) for log in logs for entry in log.entries]
    entries.sort(key=lambda entry: entry[1].generation)
    messages = []
    for number, (log, stamp, body) in enumerate(entries, before + 1):
        headers = {**stamp.headers(), EXPECTED: str(number - 1)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reply = f"$JS.ACK.EVENTS.name.1.{number}.{number}.{number * 10**9}.0"
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        subject = Subjects().event(log.key)
        messages.append(ReceivedMessage(cast("Client", None), subject, reply, body, block))
    for log in logs:
        log.messages.clear()
    return messages


async def test_a_token_takes_few_calls() -> None:
    server = FakeServer()
    consumer = Consumer(server, "EVENTS", "name")  # type: ignore[arg-type]
    await consumer.open(0)
    logs, batches = [started() for _ in range(LOGS)], Batches(Subjects(), 5, 30)
    before = delivered(logs)
    server.answer(*before)
    batches.build(await consumer.fetch(), Progress())
    for log in logs:
        for _ in range(TOKENS):
            say(log)
    tokens = delivered(logs, len(before))
    with CallCounter((headrace, headrace_task_state)) as counter:
        server.answer(*tokens)
        changes = batches.build(await consumer.fetch(), Progress()).changes
    assert len(changes) == LOGS
    assert counter.calls / len(tokens) <= CALLS


def plain(msg: ReceivedMessage) -> Msg:
    """Return the message in a form that is always read wholly."""
    return message(msg.subject, msg.data, reply=msg.reply, headers=msg.headers)


type Edit = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""Changes the header block and the body of a token."""


def headers(pattern: bytes, replacement: bytes) -> Edit:
    return lambda block, body: (re.sub(pattern, replacement, block), body)


def text(replacement: bytes) -> Edit:
    return lambda block, body: (block, body.replace(b"token", replacement))


def body(pattern: bytes, replacement: bytes) -> Edit:
    return lambda block, body: (block, body.replace(pattern, replacement))


EDITS = {
    "none": headers(b"", b""),
    "generation in headers": headers(rb"(Generation: )\d+", rb"\g<1>99"),
    "generation 1": headers(rb"(Generation: )\d+", rb"\g<1>1"),
    "generation with zeros": headers(rb"(Generation: )", rb"\g<1>0"),
    "long generation": headers(rb"(Generation: )", rb"\g<1>1234567890123456"),
    "log": headers(b"abcdefgh", b"hgfedcba"),
    "attempt": headers(b"Attempt: 1", b"Attempt: 2"),
    "state": headers(b"STATE_WORKING", b"STATE_COMPLETED"),
    "version": headers(b"Version: 2", b"Version: 9"),
    "checkpoint": headers(b"\r\n\r\n", b"\r\nHeadrace-Checkpoint: {}\r\n\r\n"),
    "second state": headers(b"\r\n\r\n", b"\r\nHeadrace-State: TASK_STATE_FAILED\r\n\r\n"),
    "no expectation": headers(b"Nats-[^\r]*\r\n", b""),
    "expectation": headers(rb"(Sequence: )\d+", rb"\g<1>x"),
    "generation in body": body(b'"headrace.generation":', b'"headrace.generation":9'),
    "escapes": text(rb"\" \\ \n \u00e9 \ud83d\ude00"),
    "end of the string": text(b'" '),
    "two strings": text(b'","x'),
    "backslash": text(b"\\"),
    "half a character": text(rb"\ud800"),
    "line break": text(b"a\nb"),
    "carriage return": text(b"a\rb"),
    "carriage return before the text": body(b'"text":"', b'"text":\r"'),
    "space before the text": body(b'"text":"', b'"text": "'),
    "no UTF-8": text(b"\xff"),
    "line separator": text("\u2028".encode()),
    "number": body(b'"token"', b"1"),
    "empty": text(b""),
    "second line": lambda block, body: (block, body + b"\n" + body),
    "nothing": lambda block, _: (block, b""),
    "retracted": body(b'"append":true', b'"append":false'),
    "other artifact": body(b'"answer"', b'"other"'),
    "shorter": lambda block, body: (block, body[:-1]),
    "cut to the frame": text(b'"'),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_whatever_comes_between_tokens_is_read_as_if_each_was_read_wholly(edit: Edit) -> None:
    logs = [started(), started()]
    before = delivered(logs)
    for log in logs:
        for _ in range(5):
            say(log)
    tokens = delivered(logs, len(before))
    changed = tokens[4]
    changed.block, changed.data = edit(changed.block, changed.data)
    fast, slow = Batches(Subjects(), 5, 30), Batches(Subjects(), 5, 30)
    for part in (before, tokens[:8], tokens[8:]):
        read = fast.build([read_arrival(msg) for msg in part], Progress())
        whole = slow.build([read_arrival(plain(msg)) for msg in part], Progress())
        assert read == whole


def test_after_its_end_nothing_continues_a_text() -> None:
    log = started()
    say(log)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    before = delivered([log])
    log.state = "TASK_STATE_WORKING"
    say(log)
    batches = Batches(Subjects(), 5, 30)
    messages = [*before, *delivered([log], len(before))]
    batch = batches.build([read_arrival(msg) for msg in messages], Progress())
    assert batch.continued == {log.key: len(messages)}
