"""Each feed has one holder: whatever fails, and whoever leaves, no feed stays open."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import NamedTuple

import httpx
import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.run import Run
from headrace.model.task import INPUT_REQUIRED
from headrace_gateway.app import build_app
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from tests.support.memory_gateway import memory_services
from tests.support.waiting import eventually

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
SUBMISSION = Submission(Caller(), "echo", MESSAGE)
CALL = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": MESSAGE}}


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with memory_services(OpenRequests(), GatewaySettings()) as services:
        yield services


class Sent(NamedTuple):
    """A request for a stream, and what fails while its stream is made."""

    path: str
    body: dict[str, object]
    fails: str


@pytest.mark.parametrize(
    "sent",
    [
        Sent("", CALL, "a2a.stream_responses.entry_renderer_for"),
        Sent("/message:stream", {"message": MESSAGE}, "a2a.stream_responses.SharedRenderer"),
        Sent("/message:stream?format=agui", {"message": MESSAGE}, "hector.renderer.HectorRenderer"),
    ],
    ids=["JSON-RPC", "REST", "Hector's events"],
)
async def test_a_stream_that_cannot_be_made_leaves_no_feed_open(
    services: Services, monkeypatch: pytest.MonkeyPatch, sent: Sent
) -> None:
    failed = list[str]()

    def fail(*_: object, **__: object) -> None:
        failed.append(sent.fails)
        raise ValueError("no stream")

    monkeypatch.setattr(f"headrace_gateway.protocols.{sent.fails}", fail)
    transport = httpx.ASGITransport(build_app(services, PROTOCOLS), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        url, headers = f"/v1/agents/echo{sent.path}", {"a2a-version": "1.0"}
        await client.post(url, json=sent.body, headers=headers)
    assert failed == [sent.fails]
    assert len(services.feeds) == 0


MOMENTS = 60
"""More than a submission has steps."""


async def leave_after(steps: int, submitting: asyncio.Task[AcceptedInput]) -> AcceptedInput | None:
    """Cancel a client after some of its submission's steps; return what it got before."""
    for _ in range(steps):
        await asyncio.sleep(0)
    submitting.cancel()
    [result] = await asyncio.gather(submitting, return_exceptions=True)
    return result if isinstance(result, AcceptedInput) else None


async def test_a_client_that_leaves_at_any_moment_of_its_submission_leaves_no_feed_open(
    services: Services,
) -> None:
    loop, results = asyncio.get_running_loop(), list[AcceptedInput | None]()
    for steps in range(MOMENTS):
        submitting = loop.create_task(services.submissions.submit(SUBMISSION))
        results.append(await leave_after(steps, submitting))
    await services.background.drain()
    accepted = [one for one in results if one is not None]
    assert 0 < len(accepted) < MOMENTS, "some left before it was accepted, some later"
    assert len(services.feeds) == len(accepted)
    for one in accepted:
        async with one:
            assert await last_entry(services.bus, one.key) is not None
    assert len(services.feeds) == 0


async def ask(bus: Bus, msg: Msg) -> None:
    """End a run with a question."""
    run = Run.read(bus.subjects, msg.subject, msg.headers, msg.data)
    question = events.status_update(run.key.task, run.context, INPUT_REQUIRED)
    writer = LogWriter(bus, run.key, sequence=run.sequence or 0, generation=run.generation)
    generation = run.generation + 1
    stamp = Stamp(run.log, generation, "worker", INPUT_REQUIRED, run.generation, 1, run.owner)
    await writer.append([question], stamp)


async def asking_task(services: Services) -> str:
    """Return a task that waits for input."""
    async with await services.submissions.submit(SUBMISSION) as accepted:
        key = accepted.key

    async def asks() -> bool:
        last = await last_entry(services.bus, key)
        return last is not None and last.ends_run

    await eventually(asks, "the task waits for input")
    return key.task


async def test_a_client_that_leaves_at_any_moment_of_an_answer_leaves_no_feed_open() -> None:
    loop, results = asyncio.get_running_loop(), list[AcceptedInput | None]()
    async with memory_services(OpenRequests(), GatewaySettings(), ask) as services:
        for steps in range(0, 2 * MOMENTS, 4):
            task = await asking_task(services)
            keyed = KeyedRequest(Caller(), "echo", task, "fingerprint")
            answer = replace(SUBMISSION, task=task, keyed=keyed)
            submitting = loop.create_task(services.submissions.submit(answer))
            results.append(await leave_after(steps, submitting))
            await services.background.drain()
            assert len(services.feeds) == (results[-1] is not None)
            if (accepted := results[-1]) is not None:
                async with accepted:
                    assert accepted.generation > 2
        assert None in results, "some left before it was accepted"
        assert any(results), "some left later"
        assert len(services.feeds) == 0


async def test_a_client_that_leaves_drops_no_feed_that_another_holds(services: Services) -> None:
    loop = asyncio.get_running_loop()
    async with await services.submissions.submit(SUBMISSION) as accepted:
        feed = accepted.feed
        for steps in range(4):
            opening = loop.create_task(services.feeds.open(accepted.key))
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            [result] = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(result, BaseException):
                async with result as other:
                    assert other is feed
        blocks = await feed.reader(0).read()
        assert [block.entry.generation for block in blocks] == [1]
        assert len(services.feeds) == 1
    assert len(services.feeds) == 0
