"""Requests are counted by protocol, binding, operation and outcome."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from starlette.requests import ClientDisconnect

from headrace.model.errors import BusUnavailable, LogTooNew
from headrace_gateway.refusals import Malformed, RateLimited
from headrace_gateway.request_metrics import OUTCOMES, RequestMetrics, outcome_of
from headrace_gateway.server.open_requests import OpenRequests, name_operation
from headrace_gateway.tasks.subscribe import NothingFollows

KEY = {"protocol": "a2a", "binding": "grpc", "operation": "GetTask"}


def counted(**labels: str) -> float | None:
    return REGISTRY.get_sample_value("headrace_requests_total", labels)


def test_the_operations_of_a2a_are_at_zero_before_their_first_request() -> None:
    RequestMetrics()
    known = {outcome: counted(**KEY, outcome=outcome) for outcome in OUTCOMES}
    assert None not in known.values()


async def test_a_request_is_counted_and_timed_with_the_operation_of_its_call() -> None:
    requests, key = OpenRequests(RequestMetrics().ended), KEY | {"outcome": "ok"}
    before = counted(**key) or 0
    timed = REGISTRY.get_sample_value("headrace_request_seconds_count", KEY) or 0
    async with requests.one("a2a", "grpc"):
        name_operation("GetTask")
    assert counted(**key) == before + 1
    assert REGISTRY.get_sample_value("headrace_request_seconds_count", KEY) == timed + 1


async def test_an_abandoned_request_is_counted_as_unavailable() -> None:
    requests, key = OpenRequests(RequestMetrics().ended), KEY | {"outcome": "unavailable"}
    before = counted(**key) or 0

    async def wait() -> None:
        async with requests.one("a2a", "grpc"):
            name_operation("GetTask")
            requests.give_up()
            await asyncio.Event().wait()

    with pytest.raises(Exception, match="restarting"):
        await wait()
    assert counted(**key) == before + 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (NothingFollows("nothing follows"), "ok"),
        (Malformed([]), "refused"),
        (RateLimited("slow down", 1), "refused"),
        (BusUnavailable("no NATS"), "unavailable"),
        (LogTooNew("version 4"), "unavailable"),
        (LookupError("a bug"), "failed"),
        (ClientDisconnect(), "disconnected"),
        (asyncio.CancelledError(), "disconnected"),
    ],
)
def test_the_outcome_follows_from_the_error(error: BaseException | None, outcome: str) -> None:
    assert outcome_of(error) == outcome
