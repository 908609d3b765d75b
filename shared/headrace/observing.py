"""The port on which a service without HTTP of its own is observed: its metrics, and how it is."""

import socket
import socketserver
from collections.abc import Callable
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import override

import orjson
from prometheus_client import MetricsHandler


class _Server(ThreadingHTTPServer):
    """Answers on threads of its own: an agent that holds the loop does not make it silent."""

    def __init__(
        self, host: str, port: int, is_ready: Callable[[], bool], note: Callable[[], str]
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.is_ready, self.note = is_ready, note
        super().__init__((host, port), _Page)

    @override
    def server_bind(self) -> None:
        # http.server's own looks the host's name up, and waits for a DNS that does not answer.
        socketserver.TCPServer.server_bind(self)


class _Page(MetricsHandler):
    """``/healthz``, ``/readyz``; anything else is the metrics."""

    server: _Server

    @override
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._say("ok", is_well=True)
        elif path == "/readyz":
            is_ready = self.server.is_ready()
            self._say("ready" if is_ready else "unavailable", self.server.note(), is_well=is_ready)
        else:
            super().do_GET()

    def _say(self, status: str, note: str = "", *, is_well: bool) -> None:
        body = orjson.dumps({"status": status, "note": note} if note else {"status": status})
        self.send_response(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(
    host: str, port: int, is_ready: Callable[[], bool], note: Callable[[], str] = str
) -> None:
    """Serve `/metrics`, `/healthz` and `/readyz` for the life of the process; port 0: don't.

    `/healthz` answers 200 while the process lives, `/readyz` while `is_ready`, else 503, with a
    `note` if there is one. They are asked on another thread.

    Raises:
        OSError: the port is taken.
    """
    if port:
        server = _Server(host, port, is_ready, note)
        Thread(target=server.serve_forever, name="observing", daemon=True).start()
