"""A real browser's EventSource on a task, in a page that reports events to the test."""

import json
import os
import shutil
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pytest

from tests.support.event_stream import Json
from tests.support.resuming_bindings import Received
from tests.support.servers import ports
from tests.support.starting import start_process

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
_END_TIMEOUT = 60.0

_PAGE = b"""<!doctype html><meta charset="utf-8"><title>task</title><script>
const seen = [];
let opened = 0;
const source = new EventSource(new URLSearchParams(location.search).get("url"));
source.onopen = () => { opened += 1; };
source.onmessage = (event) => { seen.push([event.lastEventId, JSON.parse(event.data)]); };
let telling = false;
setInterval(async () => {
  if (telling) return;
  telling = true;
  const said = JSON.stringify({ seen, opened, state: source.readyState });
  try { await fetch("/seen", { method: "POST", body: said }); } finally { telling = false; }
}, 100);
</script>"""


def find_browser() -> str:
    """Return the browser's program; where there is none the test is skipped, or fails in CI."""
    for name in _PROGRAMS:
        if (program := shutil.which(name)) is not None:
            return program
    if os.environ.get("CI") == "true":
        pytest.fail("no Chromium to test EventSource with")
    pytest.skip("needs Chromium, and there is none here")


class Browser:
    """A page, by default one with an EventSource, that posts what it sees to ``/seen``."""

    def __init__(self, folder: Path, page: bytes = _PAGE) -> None:
        """Make the browser that is to be; it keeps its profile under `folder`."""
        self._folder, self._program, self._page = folder, find_browser(), page
        self._said: dict[str, Any] = {"seen": [], "opened": 0, "state": 0}
        port = ports.pick()
        self.origin = f"http://127.0.0.1:{port}"
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._serving = threading.Thread(target=self._server.serve_forever, daemon=True)

    def follow(self, url: str) -> None:
        """Open the page with `url` in its query, which its EventSource connects to."""
        command = [
            self._program,
            *FLAGS,
            f"--user-data-dir={self._folder / 'profile'}",
            f"{self.origin}/?url={quote(url, safe='')}",
        ]
        self._process = start_process(command, self._folder / "browser.log")

    @property
    def said(self) -> Json:
        """What the page has posted last."""
        return self._said

    @property
    def received(self) -> list[Received]:
        """Every event that the page has got."""
        return [Received(cursor, event) for cursor, event in self._said["seen"]]

    @property
    def opened(self) -> int:
        """How often it was connected."""
        return int(self._said["opened"])

    @property
    def gave_up(self) -> bool:
        """Whether it will not connect again."""
        return bool(self._said["state"] == 2)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._serving.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if hasattr(self, "_process"):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(_END_TIMEOUT)
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        browser = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(browser._page)

            def do_POST(self) -> None:
                output: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                browser._said = output
                self._answer(b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler
