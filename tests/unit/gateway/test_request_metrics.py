"""Requests of every protocol are counted from zero."""

import httpx
import pytest
from prometheus_client import CollectorRegistry

from headrace.loop_metrics import LoopCounter
from headrace_gateway import request_metrics
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.request_metrics import OUTCOMES, RequestMetrics
from headrace_gateway.server.long_responses import DeferringApp
from headrace_gateway.server.open_requests import OpenRequests
from tests.support.memory_gateway import memory_gateway

LABELS = ("protocol", "binding", "operation", "outcome")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], float]:
    """The series of a gateway that has had no request."""
    registry = CollectorRegistry()
    counter = LoopCounter("requests", "Requests.", LABELS, registry)
    monkeypatch.setattr(request_metrics, "REQUESTS", counter)
    RequestMetrics()
    [found] = registry.collect()
    totals = (one for one in found.samples if one.name == "requests_total")
    return {tuple(one.labels[name] for name in LABELS): one.value for one in totals}


@pytest.mark.parametrize("protocol", [*(one.name for one in PROTOCOLS), "other"])
def test_the_first_failure_of_any_protocol_is_an_increase(
    counted: dict[tuple[str, ...], float], protocol: str
) -> None:
    mine = {key: value for key, value in counted.items() if key[0] == protocol}
    assert {key[3] for key in mine} == set(OUTCOMES)
    assert ("none", "refused") in {key[2:] for key in mine}
    assert set(mine.values()) == {0}


@pytest.mark.parametrize(
    ("protocol", "binding"),
    [("a2a", "grpc"), ("a2a", "websocket"), ("ag-ui", "websocket"), ("copilotkit", "http")],
)
def test_a_run_of_any_binding_begins_at_zero(
    counted: dict[tuple[str, ...], float], protocol: str, binding: str
) -> None:
    assert counted[protocol, binding, "SendStreamingMessage", "failed"] == 0


@pytest.mark.parametrize("operation", ["ForkTask", "DeleteTask"])
def test_a_fork_and_a_deletion_of_any_binding_begin_at_zero(
    counted: dict[tuple[str, ...], float], operation: str
) -> None:
    for binding in ("jsonrpc", "http", "grpc", "websocket"):
        assert counted["a2a", binding, operation, "failed"] == 0


ASKED = {
    "GET /v1/fleet": "GetFleet",
    "GET /v1/dead-letters": "ListDeadLetters",
    "POST /v1/workers/nobody:drain": "DrainWorker",
    "GET /v1/fleet/agents/echo/versions": "GetAgentVersions",
    "GET /v1/triggers": "ListTriggers",
    "GET /v1/triggers/none": "GetTrigger",
    "POST /v1/triggers/none:pause": "PauseTrigger",
    "GET /v1/schedules": "ListSchedules",
    "GET /v1/schedules/none": "GetSchedule",
    "POST /v1/schedules/none:run": "RunSchedule",
    "DELETE /v1/schedules/none": "DeleteSchedule",
}


async def test_requests_of_the_fleet_api_are_counted_by_their_operations(
    counted: dict[tuple[str, ...], float],
) -> None:
    named = list[str]()
    requests = OpenRequests(lambda request, _: named.append(request.operation))
    async with memory_gateway(requests) as app:
        transport = httpx.ASGITransport(DeferringApp(requests, app))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for one in ASKED:
                method, path = one.split()
                await client.request(method, path)
    assert named == list(ASKED.values())
    assert all(("fleet", "http", operation, "failed") in counted for operation in named)
