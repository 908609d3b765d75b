"""What a submission or a read costs its gateway, in numbers that are the same in every run.

See `tests/unit/worker/test_append_costs.py` for what a token costs its worker.
"""

import sys
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import NamedTuple

import nats
import orjson
import prometheus_client
import pytest
import starlette
from nats.aio.msg import Msg
from starlette.types import ASGIApp, Message

import headrace
import headrace_gateway
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.messages import RunRequest
from headrace.model.task import COMPLETED, INPUT_REQUIRED
from headrace_gateway.server.long_responses import DISCONNECTS, ConnectionDisconnects, DeferringApp
from headrace_gateway.server.open_requests import OpenRequests
from tests.support.call_counter import CallCounter
from tests.support.memory_gateway import memory_gateway

PACKAGES = (headrace, headrace_gateway, nats, prometheus_client, starlette)

ASK = "ask me"
"""The text of a message whose run ends with a question."""

MOST_SUBMISSIONS = 60
"""The fewest calls of these count: on a busy machine many submissions meet timers of the gateway.
A submission that takes more calls takes them in each."""

CALLS = 358
"""Python functions called per submission, from its request to its first event."""

CALLS_OF_BLOCKING_RUN = 568
"""Python functions called per run whose request waits for its end, with the append that ends it."""

CALLS_OF_FOLLOW_UP = 680
"""Python functions called per reply to a question that waits for the end of its run, likewise."""

CALLS_OF_READ = 296
"""Python functions called per GetTask of a task of one run that has ended."""

CALLS_OF_AGUI_RUN = 581
"""Python functions called per AG-UI run in a new thread, from its request to its first event."""


@pytest.fixture
async def gateway() -> AsyncIterator[ASGIApp]:
    requests = OpenRequests()
    async with memory_gateway(requests) as app:
        yield DeferringApp(requests, app)


async def end_run(bus: Bus, msg: Msg) -> None:
    """Append the output and the end of a run: of the first one to a question, with a question."""
    key, run = bus.subjects.key_of_run(msg.subject)
    request = RunRequest.decode(msg.subject, msg.data)
    text = {"artifactId": "answer", "parts": [{"text": "hello"}]}
    state = INPUT_REQUIRED if ASK in (request.input or "") else COMPLETED
    drafts = [
        events.artifact_update(key.task, request.context, text),
        events.status_update(key.task, request.context, state),
    ]
    stamp = Stamp(request.log, run + 1, "worker", state, run, 1, request.owner)
    writer = LogWriter(bus, key, sequence=request.sequence or 0, generation=run)
    await writer.append(drafts, stamp)


@pytest.fixture
async def serving_gateway() -> AsyncIterator[ASGIApp]:
    requests = OpenRequests()
    async with memory_gateway(requests, end_run) as app:
        yield DeferringApp(requests, app)


class Submission(NamedTuple):
    """A path and a body, whose answer is read up to the first piece of its body."""

    path: str
    body: bytes

    async def submit(self, gateway: ASGIApp) -> bytes:
        """Return what a client gets that disconnects after that piece."""
        connection = ConnectionDisconnects(lambda: None)
        headers = [
            (b"host", b"127.0.0.1:8080"),
            (b"a2a-version", b"1.0"),
            (b"accept", b"text/event-stream"),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
        ]
        scope = {
            "type": "http",
            "scheme": "http",
            "method": "POST",
            "path": self.path,
            "query_string": b"",
            "headers": headers,
            "extensions": {DISCONNECTS: connection},
        }
        sent = list[bytes]()

        async def receive() -> Message:
            return {"type": "http.request", "body": self.body}

        async def send(message: Message) -> None:
            sent.append(message.get("body", b""))
            if sent[-1]:
                connection.end()

        await gateway(scope, receive, send)
        return b"".join(sent)


def new_task(method: str, text: str = "hello", **named: str) -> Submission:
    """Return a call of A2A's `method` that begins a task, or continues the one that is `named`."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **named}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return Submission("/v1/agents/echo", orjson.dumps(call))


numbers = count(1)


def new_run() -> Submission:
    """Return an AG-UI run in a thread of its own."""
    message = {"id": "m", "role": "user", "content": "hello"}
    given = {"messages": [message], "tools": [], "context": [], "state": {}, "forwardedProps": {}}
    named = {"threadId": f"thread {next(numbers)}", "runId": "run", "protocolVersion": "1.0"}
    return Submission("/v1/agents/echo/ag-ui", orjson.dumps(named | given))


async def fewest_calls(
    gateway: ASGIApp, submission: Callable[[], Submission], enough: int
) -> tuple[int, list[bytes]]:
    """Return the fewest calls of a `submission`, once `enough` do; all answers."""
    answers, fewest = [await submission().submit(gateway)], sys.maxsize
    while fewest > enough and len(answers) < MOST_SUBMISSIONS:
        one = submission()
        with CallCounter(PACKAGES) as counter:
            answers.append(await one.submit(gateway))
        fewest = min(fewest, counter.calls)
    return fewest, answers


async def test_a_submission_takes_few_calls(gateway: ASGIApp) -> None:
    calls, answers = await fewest_calls(gateway, lambda: new_task("SendStreamingMessage"), CALLS)
    assert all(b"TASK_STATE_SUBMITTED" in answer for answer in answers)
    assert calls <= CALLS


async def test_a_blocking_run_takes_few_calls(serving_gateway: ASGIApp) -> None:
    calls, answers = await fewest_calls(
        serving_gateway, lambda: new_task("SendMessage"), CALLS_OF_BLOCKING_RUN
    )
    assert all(b"TASK_STATE_COMPLETED" in answer for answer in answers)
    assert calls <= CALLS_OF_BLOCKING_RUN


async def test_a_reply_takes_few_calls(serving_gateway: ASGIApp) -> None:
    asked = [
        orjson.loads(await new_task("SendMessage", ASK).submit(serving_gateway))["result"]["task"]
        for _ in range(MOST_SUBMISSIONS + 1)
    ]
    calls, answers = await fewest_calls(
        serving_gateway,
        lambda: new_task("SendMessage", taskId=asked.pop()["id"]),
        CALLS_OF_FOLLOW_UP,
    )
    assert all(b"TASK_STATE_COMPLETED" in answer for answer in answers)
    assert calls <= CALLS_OF_FOLLOW_UP


async def test_a_read_of_a_short_task_takes_few_calls(serving_gateway: ASGIApp) -> None:
    begun = orjson.loads(await new_task("SendMessage").submit(serving_gateway))
    task = begun["result"]["task"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
    reading = Submission("/v1/agents/echo", orjson.dumps(call))
    calls, answers = await fewest_calls(serving_gateway, lambda: reading, CALLS_OF_READ)
    assert all(orjson.loads(answer)["result"] == task for answer in answers)
    assert calls <= CALLS_OF_READ


async def test_an_agui_run_takes_few_calls(gateway: ASGIApp) -> None:
    calls, answers = await fewest_calls(gateway, new_run, CALLS_OF_AGUI_RUN)
    assert all(b"RUN_STARTED" in answer for answer in answers)
    assert calls <= CALLS_OF_AGUI_RUN
