"""Where spans are exported to, as the standard environment variables say."""

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import override

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import SpanKind

from headrace import tracing

PROGRAM = """
import logging, os
from opentelemetry.trace import SpanKind
from headrace import tracing

logging.basicConfig(format="%(message)s")
with tracing.exporting(os.environ, "headrace-worker"):
    tracing.start_span("one", SpanKind.INTERNAL, None).end()
    print(tracing.is_enabled())
"""
"""A process's provider can be set only once, so each case has its own."""


class Collector(HTTPServer):
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Export)
        self.received: list[ExportTraceServiceRequest] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[tuple[str, str]]:
        """Return the service and the name of each span received."""
        return [
            (attribute.value.string_value, span.name)
            for request in self.received
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Export(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") is None and self.path == "/v1/traces":
            self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on loopback."""
    with Collector() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


def run(**variables: str) -> tuple[str, str]:
    """Return what the program prints and logs with these environment variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "headrace-worker"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "mine"}, "mine"),
    ],
)
def test_spans_go_to_the_otlp_endpoint_and_are_flushed_at_the_end(
    collector: Collector, variables: dict[str, str], service: str
) -> None:
    printed, _ = run(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **variables)
    assert (printed, collector.spans()) == ("True", [(service, "one")])


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SERVICE_NAME": "mine"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_exported_where_the_variables_do_not_ask_for_it(
    variables: dict[str, str],
) -> None:
    assert run(**variables) == ("False", "")


def test_an_exporter_that_is_not_installed_is_a_warning_that_names_the_extra() -> None:
    printed, logged = run(OTEL_TRACES_EXPORTER="zipkin")
    assert printed == "False"
    assert "there is no exporter 'zipkin'; install 'headrace[opentelemetry]'" in logged


def test_without_a_provider_spans_are_invalid_and_have_no_trace_context() -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    span = tracing.start_span("one", SpanKind.SERVER, parent)
    assert span is trace.INVALID_SPAN
    assert tracing.traceparent_of(span) is None
