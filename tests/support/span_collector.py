"""A collector of OpenTelemetry spans on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import override

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SpanCollector(HTTPServer):
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        """Listen on a free port."""
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
    server: SpanCollector

    def do_POST(self) -> None:
        """Keep the spans of a request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") is None and self.path == "/v1/traces":
            self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def span_collector() -> Iterator[SpanCollector]:
    """Run a collector in a thread."""
    with SpanCollector() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)
