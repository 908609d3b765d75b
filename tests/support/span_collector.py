"""A collector of OpenTelemetry spans on loopback.

``python -m tests.support.span_collector`` prints its URL, and when its input ends the number of
spans received: `collector_process` starts it so.
"""

import subprocess
import sys
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
        self.bodies: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def received(self) -> list[ExportTraceServiceRequest]:
        """Return the requests. They are decoded here, not while the services work."""
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

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
            self.server.bodies.append(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


class CollectorProcess:
    """A collector in a process of its own, whose work slows down no thread of this one."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Wait until `process` receives spans."""
        self._process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().strip()

    def end(self) -> int:
        """End it; return the number of spans received."""
        return int(self._process.communicate(timeout=60)[0])


@contextmanager
def collector_process() -> Iterator[CollectorProcess]:
    """Run a collector in a process of its own."""
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield CollectorProcess(process)
        finally:
            process.kill()


@contextmanager
def span_collector() -> Iterator[SpanCollector]:
    """Run a collector in a thread."""
    with SpanCollector() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


def main() -> None:
    """Collect until the input ends."""
    with span_collector() as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(f"{len(server.spans())}\n")


if __name__ == "__main__":
    main()
