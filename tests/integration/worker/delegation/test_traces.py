"""A request is one trace, from the client's span to those of its task's children."""

import httpx
import pytest

from headrace import RunContext, agent
from tests.integration.worker.conftest import Working
from tests.support.clients.bindings import Rest
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.spans import RecordedSpans, parent, traceparent

CLIENT = f"00-{'a' * 32}-{'b' * 16}-01"


@agent()
async def child(ctx: RunContext) -> str:
    """Says its trace context."""
    return f"{ctx.traceparent}"


@agent()
async def asked(ctx: RunContext) -> str:
    """Says what its child says."""
    return (await ctx.delegate("child", "x")).text


async def test_client_gateway_attempt_and_childs_attempt_are_one_trace(
    nats_server: NatsProcess,
    names: dict[str, str],
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, spans = own_settings(nats_server.url, **names), RecordedSpans(monkeypatch)
    headers = {"traceparent": CLIENT, "A2A-Version": "1.0"}
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    async with (
        working(asked),
        working(child),
        running(settings) as url,
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http,
    ):
        answer = await Rest(http, "asked").call("SendMessage", {"message": said})
    request, above, below = spans.all()
    assert [request.name, above.name, below.name] == [
        "SendMessage",
        "invoke_agent asked",
        "invoke_agent child",
    ]
    assert [parent(span) for span in (request, above, below)] == [
        CLIENT,
        traceparent(request),
        traceparent(above),
    ]
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
    ):
        refusal = await Rest(http, "child").refused("GetTask", {"id": "no-such-task"})
    [span] = spans.all()
    assert (span.name, refusal.code) == ("GetTask", 404)
    assert (span.attributes or {})["error.type"] == "TASK_NOT_FOUND"
    assert span.status.is_unset
