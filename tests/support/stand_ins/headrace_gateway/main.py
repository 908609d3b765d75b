"""A stub gateway that is ready at once and knows one agent."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_ANSWERS = {
    "/readyz": {"status": "ok"},
    "/v1/agents": {"agents": [{"id": "echo", "available": True}]},
    "/v1/agents/echo/tasks?pageSize=1": {"tasks": []},
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = _ANSWERS.get(self.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass


def run() -> int:
    port = int(os.environ["HEADRACE_HTTP_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()
    return 0
