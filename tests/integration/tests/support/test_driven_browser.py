"""Tests that share a browser find nothing that an earlier one has left there."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.driven_browser import driven_browser, driven_page

_KEPT = "[localStorage.length, sessionStorage.length, document.cookie.length]"


class Server(ThreadingHTTPServer):
    """Serves pages that may be kept, and counts how often each is asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port."""
        self.asked = list[str]()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"it")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


async def test_a_tab_has_nothing_that_an_earlier_one_has_left(
    server: Server, tmp_path: Path
) -> None:
    found = list[object]()
    with driven_browser(tmp_path) as browser:
        for _ in range(2):
            async with driven_page(browser) as page:
                await page.open(server.url)
                await page.until("document.body.innerText === 'it'", "the page is there")
                await page.evaluate("fetch('/kept').then((answer) => answer.text())")
                found.append(await page.evaluate(_KEPT))
                await page.evaluate(
                    "localStorage.a = sessionStorage.a = 1; document.cookie = 'a=1'"
                )
                found.append(await page.evaluate(_KEPT))
    assert found == [[0, 0, 0], [1, 1, 3]] * 2
    assert server.asked.count("/kept") == 2
