"""A run over HTTP, unparsed: status, media type and framing are checked too."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from headrace.model.events import Json
from headrace_cli.agui.finding import Finding, required
from headrace_cli.failures import RequestFailed

LONGEST = 10_000_000
"""Maximum bytes of a frame that clients accept."""


class ParsedFrame(NamedTuple):
    """One frame."""

    event: Json
    """The event; empty if the frame's data is not a JSON object."""
    findings: list[Finding]


class Endpoint:
    """An AG-UI endpoint."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float) -> None:
        """Use the endpoint at `url`; give up after `timeout` seconds of silence.

        Raises:
            RequestFailed: `url` is not a URL.
        """
        self._where = urlsplit(url)
        if self._where.scheme not in ("http", "https") or not self._where.hostname:
            raise RequestFailed(f"{url!r} is not an http(s) URL")
        self._headers, self._timeout = headers, timeout

    @contextmanager
    def post(self, body: object) -> Iterator[HTTPResponse]:
        """Post `body` as JSON and yield the answer.

        Raises:
            RequestFailed: the endpoint does not answer, or the connection breaks.
        """
        with self._ask("POST", "", json.dumps(body)) as answer:
            yield answer

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body at `path` under the endpoint.

        Raises:
            RequestFailed: as `post`.
        """
        with self._ask("GET", path, None) as answer:
            return answer.status, answer.read()

    @contextmanager
    def _ask(self, method: str, path: str, body: str | None) -> Iterator[HTTPResponse]:
        kind = HTTPSConnection if self._where.scheme == "https" else HTTPConnection
        connection = kind(self._where.hostname or "", self._where.port, timeout=self._timeout)
        query = f"?{self._where.query}" if self._where.query else ""
        target = f"{self._where.path.rstrip('/') if path else self._where.path or '/'}{path}{query}"
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        try:
            connection.request(method, target, body, headers | self._headers)
            with connection.getresponse() as answer:
                yield answer
        except (OSError, HTTPException) as broken:
            raise RequestFailed(f"{self._where.netloc}: {broken}") from broken
        finally:
            connection.close()


def framed(answer: HTTPResponse) -> Iterator[ParsedFrame]:
    """Yield the frames of an answer as they arrive, without comments."""
    data, lines, ill = list[str](), 0, ""
    while line := answer.readline(LONGEST + 1):
        lines += len(line)
        text = line.decode(errors="replace")
        if not text.endswith("\n") or "\r" in text:
            ill = ill or "a line does not end with LF alone"
        text = text.rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text.removeprefix("data:").removeprefix(" "))
        elif not text:
            if data:
                yield _frame("\n".join(data), lines, ill)
            data, lines, ill = [], 0, ""
    if data:
        yield _frame("\n".join(data), lines, "the stream ended inside a frame")


def _frame(data: str, size: int, ill: str) -> ParsedFrame:
    try:
        event = json.loads(data)
    except ValueError as error:
        event, why = None, f"it is not JSON: {error}"
    else:
        why = "it is not a JSON object"
    findings = [
        required(not ill, "sse.framing", ill),
        required(size <= LONGEST, "sse.size", f"{size} bytes"),
        required(isinstance(event, dict), "sse.json", why),
    ]
    return ParsedFrame(event if isinstance(event, dict) else {}, findings)
