"""A stub gateway that is ready at once and knows one agent, once a stub worker is there."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def _answers() -> dict[str, object]:
    # Never ready without a worker: which of them is up first differs by machine.
    is_available = Path("agent-is-there").exists()
    return {
        "/readyz": {"status": "ok"},
        "/v1/agents": {"agents": [{"id": "echo", "available": is_available}]},
        "/v1/agents/echo/tasks?pageSize=1": {"tasks": []},
    }


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = _answers().get(self.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass


def run() -> int:
    port = int(os.environ["HEADRACE_HTTP_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()
    return 0
