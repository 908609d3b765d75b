"""A gateway with scripted answers that records its requests."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from headrace.model.events import Json

_TIMEOUT = 60.0


@dataclass(frozen=True)
class ScriptedResponse:
    """One answer: JSON, or the frames of an event stream that then ends."""

    status: int = 200
    body: Json | None = None
    frames: tuple[tuple[str, Json], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    farewell: bytes = b""
    """What follows the frames."""
    hold: threading.Event | None = None
    """Keeps the stream open until it is set."""
    cut: bytes | None = None
    """What comes of an answer that breaks off; it promises more."""


class Question(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    cursor: str | None
    body: Json | None
    headers: Mapping[str, str]


class FakeGateway(ThreadingHTTPServer):
    """Answers each path with the next of its answers, the last one again and again."""

    daemon_threads = True

    def __init__(self, script: dict[str, list[ScriptedResponse]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.asked = script, list[Question]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_answer(self, question: Question) -> ScriptedResponse:
        self.asked.append(question)
        answers = self.script.get(
            question.path, [ScriptedResponse(404, {"error": {"message": "no such"}})]
        )
        return answers.pop(0) if len(answers) > 1 else answers[0]


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        cursor = self.headers.get("Last-Event-ID")
        assert isinstance(self.server, FakeGateway)
        answer = self.server.next_answer(
            Question(self.command, self.path, cursor, body, dict(self.headers))
        )
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.cut is not None:
            self.send_header("Content-Length", str(len(answer.cut) + 1))
        self.end_headers()
        self.wfile.write(answer.cut or b"")
        if answer.body is not None:
            self.wfile.write(json.dumps(answer.body).encode())
        # One write: how the client's reads divide the stream must not depend on the machine.
        sent = (
            f": hello\n\nid: {cursor}\ndata: {json.dumps(event)}\n\n"
            for cursor, event in answer.frames
        )
        self.wfile.write("".join(sent).encode() + answer.farewell)
        if answer.hold is not None:
            self.wfile.flush()
            answer.hold.wait(_TIMEOUT)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815  # the base class's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  # likewise
        pass


@contextmanager
def answering(**script: ScriptedResponse | list[ScriptedResponse]) -> Iterator[FakeGateway]:
    """Run a gateway that answers `script`: path to answer, or answers in turn."""
    answers = {
        path: [given] if isinstance(given, ScriptedResponse) else given
        for path, given in script.items()
    }
    with FakeGateway(answers) as gateway:
        thread = threading.Thread(target=gateway.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gateway
        finally:
            gateway.shutdown()
            thread.join()
