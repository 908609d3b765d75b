"""Requests of every protocol are counted from zero."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from headrace_gateway import request_metrics
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.request_metrics import OUTCOMES, RequestMetrics

LABELS = ("protocol", "binding", "operation", "outcome")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], float]:
    """The series of a gateway that has had no request."""
    registry = CollectorRegistry()
    counter = Counter("requests", "Requests.", LABELS, registry=registry)
    monkeypatch.setattr(request_metrics, "REQUESTS", counter)
    RequestMetrics()
    [found] = registry.collect()
    totals = (one for one in found.samples if one.name == "requests_total")
    return {tuple(one.labels[name] for name in LABELS): one.value for one in totals}


@pytest.mark.parametrize("protocol", [one.name for one in PROTOCOLS])
def test_the_first_failure_of_any_protocol_is_an_increase(
    counted: dict[tuple[str, ...], float], protocol: str
) -> None:
    mine = {key: value for key, value in counted.items() if key[0] == protocol}
    assert {key[3] for key in mine} == set(OUTCOMES)
    assert (protocol, "http", "none", "refused") in mine
    assert set(mine.values()) == {0}


@pytest.mark.parametrize(
    ("protocol", "binding"),
    [("a2a", "grpc"), ("a2a", "websocket"), ("ag-ui", "websocket"), ("copilotkit", "http")],
)
def test_a_run_of_any_binding_begins_at_zero(
    counted: dict[tuple[str, ...], float], protocol: str, binding: str
) -> None:
    assert counted[protocol, binding, "SendStreamingMessage", "failed"] == 0
