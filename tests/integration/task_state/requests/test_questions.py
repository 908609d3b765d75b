"""Questions to task state over NATS: side by side, counted, and traced where that is set up."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from nats.aio.client import Client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry

from headrace import log_context
from headrace.jetstream.broker import FleetBroker, telemetry
from headrace.jetstream.client import NatsClient
from headrace.jetstream.connection import Bus
from headrace.log_context import LogContext
from headrace.model.entry import CONTRACT_VERSION, NEXT_VERSION, VERSION
from headrace.model.errors import TaskUnknown
from headrace.model.messages import ChildInput, DropFile, GetTask, Refusal
from headrace.settings import BusSettings
from headrace.state_client import MORE, StateClient
from headrace_task_state.requests import AnswerPieces, Answers, Questions
from tests.support.servers import NatsProcess
from tests.support.spans import RecordedSpans, parent
from tests.support.task_submitter import fresh_names

TIMEOUT = 60.0


class ScriptedAnswers:
    """Answers by the task's name."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def respond(self, query: GetTask) -> bytes:
        if query.task == "slow":
            await self.release.wait()
        if query.task == "unknown":
            raise TaskUnknown("task not found")
        return query.task.encode() * (8 if query.task == "long" else 1)

    async def for_worker(self, question: DropFile | ChildInput, agent: str) -> bytes:
        return f"{type(question).__name__} of {agent}".encode()


class Asking:
    """A client, and what its questions are answered with."""

    def __init__(self, client: Client, settings: BusSettings, answers: ScriptedAnswers) -> None:
        self.client, self.settings, self.answers = client, settings, answers
        self.subjects = settings.subjects

    async def get(self, task: str, **headers: str) -> bytes:
        question = GetTask(tenant="default", owner="me", task=task).encode()
        subject = self.subjects.state("get")
        answer = await self.client.request(subject, question, TIMEOUT, headers=headers or None)
        return answer.data


@asynccontextmanager
async def asking(
    server: NatsProcess, registry: CollectorRegistry | None = None
) -> AsyncIterator[Asking]:
    """Have questions answered for the length of a block."""
    settings = BusSettings.model_validate({"nats_url": server.url, **fresh_names()})
    answers, client = ScriptedAnswers(), NatsClient()
    pieces = AnswerPieces(settings.subjects.state("more.one"), 16)
    broker = FleetBroker(settings, "answers")
    questions = Questions(settings.subjects, cast("Answers", answers), pieces)
    questions.include_in(broker, telemetry("headrace_task_state", registry or CollectorRegistry()))
    async with broker:
        await broker.start()
        await (await broker.connect()).flush()
        await client.connect(server.url)
        try:
            yield Asking(client, settings, answers)
        finally:
            await client.close()


async def test_a_slow_question_holds_up_no_other(nats_server: NatsProcess) -> None:
    async with asking(nats_server) as request, asyncio.timeout(TIMEOUT):
        slow = asyncio.create_task(request.get("slow"))
        assert await request.get("quick") == b"quick"
        assert not slow.done()
        request.answers.release.set()
        assert await slow == b"slow"


async def test_a_worker_sends_requests_in_its_agents_name(nats_server: NatsProcess) -> None:
    async with asking(nats_server) as request:
        question = DropFile(tenant="t", agent="shop", task="0-1", name="f").encode()
        subject = request.subjects.state("drop.shop")
        answer = await request.client.request(subject, question, TIMEOUT)
        assert answer.data == b"DropFile of shop"


@pytest.mark.parametrize("of_all", [False, True])
async def test_workers_send_a_childs_input_to_one_replica_or_to_all(
    nats_server: NatsProcess, *, of_all: bool
) -> None:
    child: dict[str, str] = {"tenant": "t", "agent": "vault", "task": "0-1"}
    parent = {"parent": "0-2", "parent_agent": "shop"}
    question = ChildInput(**child, **parent, input="0-2-3", message={}, asked_at=3).encode()
    async with asking(nats_server) as request:
        subject = request.subjects.state("input.shop", of_all=of_all)
        answer = await request.client.request(subject, question, TIMEOUT)
    assert answer.data == b"ChildInput of shop"


async def test_questions_are_counted_by_subject_and_refusals_by_kind(
    nats_server: NatsProcess,
) -> None:
    registry = CollectorRegistry()
    async with asking(nats_server, registry) as request:
        await request.get("a")
        refused = Refusal.decode("get", await request.get("unknown"))
        assert refused.code == "task_unknown"
        subject = request.subjects.state("get")
    labels = {"app_name": "headrace_task_state", "broker": "nats", "handler": subject}
    counted = registry.get_sample_value("faststream_received_messages_total", labels)
    assert counted == 2
    failed = "faststream_received_processed_messages_exceptions_total"
    kind = {"exception_type": "TaskUnknown"}
    assert registry.get_sample_value(failed, labels | kind) == 1


async def test_many_questions_at_once_take_no_threads(nats_server: NatsProcess) -> None:
    async with asking(nats_server) as request:
        drop = DropFile(tenant="default", agent="shop", task="t", name="f").encode()
        subject = request.subjects.state("drop.shop")
        before = set(threading.enumerate())
        refused = await asyncio.gather(*(request.get("unknown") for _ in range(50)))
        await asyncio.gather(*(request.get("a") for _ in range(50)))
        await asyncio.gather(*(request.client.request(subject, drop, TIMEOUT) for _ in range(50)))
        long = GetTask(tenant="default", owner="me", task="long").encode()
        first = await request.client.request(request.subjects.state("get"), long, TIMEOUT)
        await request.client.request((first.headers or {})[MORE], b"", TIMEOUT)
        assert set(threading.enumerate()) <= before
    assert {Refusal.decode("get", one).code for one in refused} == {"task_unknown"}


async def test_no_label_of_a_metric_is_an_answers_own(nats_server: NatsProcess) -> None:
    registry = CollectorRegistry()
    async with asking(nats_server, registry) as request:
        question = GetTask(tenant="default", owner="me", task="long").encode()
        subject = request.subjects.state("get")
        first = await request.client.request(subject, question, TIMEOUT)
        more = (first.headers or {})[MORE]
        rest = await request.client.request(more, b"", TIMEOUT)
        assert first.data + rest.data == b"long" * 8
    handlers = {
        sample.labels["handler"]
        for family in registry.collect()
        for sample in family.samples
        if "handler" in sample.labels
    }
    assert handlers == {subject}


async def test_a_question_is_a_span_of_the_askers_trace_where_traces_are_set_up(
    nats_server: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch, TracerProvider())
    asker = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with asking(nats_server) as request:
        bus = Bus(request.settings)
        await bus.connect("asker")
        client, unknown = StateClient(bus), GetTask(tenant="t", owner="me", task="unknown")
        with log_context.about(LogContext(traceparent=asker)), pytest.raises(TaskUnknown):
            await client.get(unknown)
        await bus.close()
        # All replicas are asked, too, if the answer takes long.
        subjects = [request.subjects.state("get", of_all=of_all) for of_all in (False, True)]
    ended = spans.ended()
    parents = {span.name: parent(span) for span in ended if span.name.endswith(" process")}
    # The answer goes to an inbox of the question's own, which would be a name of its own, too.
    assert {span.name for span in ended} - {"(temporary) publish"} == set(parents)
    assert parents
    assert set(parents) <= {f"{subject} process" for subject in subjects}
    assert set(parents.values()) == {asker}


async def test_a_span_names_an_errors_class_and_holds_no_content(
    nats_server: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch, TracerProvider())
    async with asking(nats_server) as request:
        subject = request.subjects.state("input.shop")
        refused = await request.client.request(subject, b'{"message": "a secret"}', TIMEOUT)
        assert Refusal.decode("input", refused.data).code == "bad_request"
    [span] = spans.of_libraries(f"{subject} process")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ValidationError"
    assert "secret" not in span.to_json()


def test_traces_that_are_not_configured_cost_nothing() -> None:
    assert len(telemetry("answers", CollectorRegistry())) == 1


async def test_a_question_of_a_later_version_is_refused_with_both_versions(
    nats_server: NatsProcess,
) -> None:
    async with asking(nats_server) as fleet:
        refusal = Refusal.decode("get", await fleet.get("task", **{VERSION: "4"}))
        assert (refusal.code, refusal.is_temporary) == ("state_unavailable", True)
        assert "Headrace-Version is 4; this release reads 2 to 3" in refusal.message
        assert await fleet.get("task", **{VERSION: NEXT_VERSION}) == b"task"


async def test_a_question_of_a_malformed_version_is_a_bad_request(
    nats_server: NatsProcess,
) -> None:
    async with asking(nats_server) as fleet:
        for version in ("x", "0"):
            refusal = Refusal.decode("get", await fleet.get("task", **{VERSION: version}))
            assert (refusal.code, refusal.is_temporary) == ("bad_request", False)
            assert f"Headrace-Version is {version}; this release reads" in refusal.message


async def test_answers_and_refusals_state_their_version(nats_server: NatsProcess) -> None:
    async with asking(nats_server) as fleet:
        subject = fleet.subjects.state("get")
        question = GetTask(tenant="default", owner="me", task="task").encode()
        for body in (question, b"{}"):
            answer = await fleet.client.request(subject, body, TIMEOUT)
            assert (answer.headers or {})[VERSION] == CONTRACT_VERSION, answer.data
