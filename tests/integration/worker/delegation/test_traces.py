"""A request is one trace, from the client's span to those of its task's children."""

import grpc.aio
import httpx
import pytest
from opentelemetry.trace import SpanKind

from headrace import RunContext, agent, tool
from headrace.model import events
from headrace.model.task import WORKING
from tests.integration.worker.conftest import Working
from tests.support.clients.bindings import Rest
from tests.support.clients.grpc_binding import Grpc
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.spans import RecordedSpans, links, parent, traceparent
from tests.support.task_submitter import TaskSubmitter

DEAD = f"00-{'a' * 32}-{'d' * 16}-01"
CLIENT = f"00-{'a' * 32}-{'b' * 16}-01"


@agent()
async def child(ctx: RunContext) -> str:
    """Says its trace context."""
    return f"{ctx.traceparent}"


@agent()
async def asked(ctx: RunContext) -> str:
    """Says what its child says, which it asks with a tool."""

    @tool
    async def ask() -> str:
        return (await ctx.delegate("child", "x")).text

    return f"{await ctx.call(ask)}"


async def test_client_gateway_attempt_tool_and_childs_attempt_are_one_trace(
    nats_server: NatsProcess,
    names: dict[str, str],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, spans = own_settings(nats_server.url, **names), RecordedSpans(monkeypatch)
    headers = {"traceparent": CLIENT, "A2A-Version": "1.0"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    async with (
        working(asked),
        working(child),
        running(settings) as url,
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http,
    ):
        answer = await Rest(http, "asked").call("SendMessage", {"message": message})
    stream = f"{names['stream_prefix']}RUNS"
    assert [span.name for span in spans.all()] == [
        "SendMessage",
        f"publish {stream}",
        "invoke_agent asked",
        "execute_tool ask",
        f"publish {stream}",
        "invoke_agent child",
    ]
    request, published, above, _, _, _ = spans.all()
    assert [parent(span) for span in spans.all()] == [
        CLIENT,
        traceparent(request),
        traceparent(request),
        traceparent(above),
        traceparent(above),
        traceparent(above),
    ]
    assert published.kind is SpanKind.PRODUCER
    assert dict(published.attributes or {}) == {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": stream,
        "gen_ai.agent.name": "asked",
        "headrace.task.id": answer["task"]["id"],
        "headrace.run": 1,
    }
    task = answer["task"]
    assert dict(request.attributes or {}) == {
        "rpc.method": "SendMessage",
        "gen_ai.agent.name": "asked",
        "headrace.protocol": "a2a",
        "headrace.binding": "http",
        "headrace.task.id": task["id"],
        "gen_ai.conversation.id": task["contextId"],
    }


async def test_a_refused_call_is_a_span_with_the_reason_and_is_the_clients_error(
    nats_server: NatsProcess,
    names: dict[str, str],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, spans = own_settings(nats_server.url, **names), RecordedSpans(monkeypatch)
    async with (
        working(child),
        running(settings) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
        grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel,
    ):
        await Rest(http, "child").refused("GetTask", {"id": "no-such-task"})
        await Grpc(http, "child", channel).refused("GetTask", {"id": "no-such-task"})
    found = [dict(span.attributes or {}) for span in spans.named("GetTask")]
    assert [(each["headrace.binding"], each["error.type"]) for each in found] == [
        ("http", "TASK_NOT_FOUND"),
        ("grpc", "TASK_NOT_FOUND"),
    ]
    assert all(span.status.is_unset for span in spans.all())


async def test_an_attempt_that_takes_over_links_to_the_dead_workers(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch)
    task = await submitter.start("child", metadata={events.TRACEPARENT: CLIENT}, publish=False)
    left = {events.ATTEMPT: 1, events.WORKER: "dead", events.ATTEMPT_TRACEPARENT: DEAD}
    draft = events.status_update(task.key.task, task.context, WORKING, metadata=left)
    await task.append(draft, WORKING, writer="dead-1", run=1, attempt=1)
    async with working(child):
        await task.publish(1)
        await task.ended()
    [span] = spans.all()
    assert (span.attributes or {})["headrace.attempt"] == 2
    assert (parent(span), links(span)) == (CLIENT, [DEAD])
