"""Drive CopilotKit's chat in a real browser: the guide's React page, into which a test types."""

import functools
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from tests.architecture.tree import ROOT
from tests.support import javascript
from tests.support.document import blocks
from tests.support.resuming_browser import FLAGS, find_browser
from tests.support.servers import ports
from tests.support.starting import start_process
from tests.support.waiting import eventually

type Json = dict[str, Any]

_GUIDE = ROOT / "docs" / "guides" / "copilotkit.md"
_FOLDER = Path(__file__).resolve().parents[1] / "e2e" / "react"
_PAGE = b"""<!doctype html><meta charset="utf-8"><title>chat</title>
<div id="root" style="height: 600px"></div><script type="module" src="/chat.js"></script>"""
_BUILD_TIMEOUT = 180.0
_END_TIMEOUT = 60.0
_TIMEOUT = 120.0


@functools.cache
def bundle() -> bytes:
    """Return the page's script in one piece; the test is skipped where it can't be made."""
    javascript.install(_FOLDER)
    [app] = blocks(_GUIDE, "jsx")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, app.title)
        path.write_text(app.code)
        command = ["node_modules/.bin/esbuild", "chat.jsx", "--bundle", "--format=esm", "--minify"]
        options = ['--define:process.env.NODE_ENV="production"', "--loader:.css=empty"]
        made = subprocess.run(
            [*command, *options, f"--alias:guide={path}", "--jsx=automatic", "--log-level=error"],
            cwd=_FOLDER,
            env={**os.environ, "NODE_PATH": str(_FOLDER / "node_modules")},
            capture_output=True,
            timeout=_BUILD_TIMEOUT,
            check=False,
        )
    assert made.returncode == 0, made.stderr.decode()
    return made.stdout


class ChatPage:
    """A page with one chat, open as long as the context is."""

    def __init__(self, folder: Path) -> None:
        """Make the page that is to be; its browser keeps its profile under `folder`."""
        self._folder, self._program = folder, find_browser()
        self._script = bundle()
        self._todo: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self.shown: Json = {}
        """What it shows: ``user`` and ``assistant`` messages, ``files``, ``images``,
        ``background``, ``surfaces`` with the lines and the inputs of each, and the ``errors`` so
        far."""
        port = ports.pick()
        self.origin = f"http://127.0.0.1:{port}"
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._browser: subprocess.Popen[bytes] | None = None

    async def open(self, runtime: str, agent: str, thread: str, **more: str) -> None:
        """Open the chat with an agent of the CopilotKit runtime at that URL.

        With a `token` its user is signed in. With `expired` the first signed URL of a file is.
        """
        self._close()
        self.shown = {}
        request = urlencode({"runtime": runtime, "agent": agent, "thread": thread, **more})
        profile = f"--user-data-dir={self._folder / 'profile'}"
        command = [self._program, *FLAGS, profile, f"{self.origin}/?{request}"]
        self._browser = start_process(command, self._folder / "browser.log")
        await self.until(lambda shown: bool(shown.get("ready")), "the chat is there")

    async def say(self, text: str) -> None:
        """Type a message and send it."""
        self._todo.put({"type": text})
        await self.until(lambda shown: shown["typed"] == text, f"{text!r} is typed")
        self._todo.put({"press": "send"})

    def click(self, text: str) -> None:
        """Press the newest surface's button with that text."""
        self._todo.put({"click": text})

    def stop(self) -> None:
        """Press the button that stops the run at work."""
        self._todo.put({"press": "stop"})

    async def until(self, what: Callable[[Json], object], described: str) -> None:
        """Return once `what` holds of what is shown."""

        async def holds() -> bool:
            return bool(self.shown) and bool(what(self.shown))

        try:
            await eventually(holds, described, timeout=_TIMEOUT)
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows {self.shown}") from None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._close()
        self._server.shutdown()
        self._server.server_close()

    def _close(self) -> None:
        if self._browser is not None:
            os.killpg(self._browser.pid, signal.SIGKILL)
            self._browser.wait(_END_TIMEOUT)
            self._browser = None

    def _next(self) -> Json:
        try:
            return self._todo.get_nowait()
        except queue.Empty:
            return {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/chat.js":
                    self._answer(page._script, "text/javascript")
                else:
                    self._answer(_PAGE, "text/html; charset=utf-8")

            def do_POST(self) -> None:
                page.shown = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(json.dumps(page._next()).encode(), "application/json")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler
