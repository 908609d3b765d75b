"""The command line's client of a gateway: JSON over HTTP, and SSE with each frame's cursor."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

import click

from headrace_cli.failures import RequestFailed

_TIMEOUT = 60.0
"""Maximum silence of a gateway in seconds; its streams send comments more often."""

type Json = dict[str, Any]


class Dropped(Exception):
    """The connection broke, or the gateway did not answer; retrying may help."""


class NothingLeft(Exception):
    """The cursor is at the end of a task that has ended."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE frame."""

    cursor: str
    """The frame's ``id``, a cursor to continue after it; empty if it has none."""
    event: Json


class GatewayClient:
    """A client of one gateway."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """Use the gateway at `url` (scheme, host, optional path), with the credential `token`."""
        where = urlsplit(url)
        if where.scheme not in ("http", "https") or not where.hostname:
            raise RequestFailed(f"{url!r} is not an http(s) URL")
        self.url, self._where = url, where
        self._headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Json:
        """Return the JSON at `path`."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Json) -> Json:
        """Post `body` to `path` and return the answer's JSON."""
        return self._ask("POST", path, body)

    def stream(
        self, method: str, path: str, body: Json | None = None, after: str = ""
    ) -> Iterator[Frame]:
        """Yield the frames of an SSE answer, those after the cursor `after`.

        Raises:
            RequestFailed: the gateway refused.
            Dropped: the connection broke.
            NothingLeft: nothing comes after `after`, now or ever.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        with self._answer(method, path, body, headers) as answer:
            if answer.status == HTTPStatus.NO_CONTENT:
                raise NothingLeft
            yield from frames(answer)

    def _ask(self, method: str, path: str, body: Json | None) -> Json:
        try:
            with self._answer(method, path, body, {}) as answer:
                content: Json = json.loads(answer.read() or b"{}")
        except Dropped as broken:
            raise RequestFailed(f"no answer from {self.url}: {broken}") from broken
        except ValueError as unreadable:
            raise RequestFailed(f"{self.url}{path} did not answer with JSON") from unreadable
        return content

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Json | None, headers: dict[str, str]
    ) -> Iterator[HTTPResponse]:
        kind = HTTPSConnection if self._where.scheme == "https" else HTTPConnection
        connection = kind(self._where.hostname or "", self._where.port, timeout=_TIMEOUT)
        try:
            connection.request(
                method,
                self._where.path.rstrip("/") + path,
                body=None if body is None else json.dumps(body),
                headers=self._headers | headers,
            )
            answer = connection.getresponse()
            if answer.status >= HTTPStatus.BAD_REQUEST:
                _refuse(answer)
            yield answer
        except (OSError, HTTPException) as broken:  # Also while the block reads the answer.
            raise Dropped(str(broken)) from broken
        finally:
            connection.close()


def frames(lines: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the frames in `lines`, without comments and frames without data."""
    cursor, data = "", list[str]()
    for line in lines:
        # A truncated line may end within a character; it yields no frame.
        field, _, value = line.decode(errors="replace").rstrip("\r\n").partition(":")
        if field == "id":
            cursor = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif not field and not value and data:
            yield Frame(cursor, json.loads("\n".join(data)))
            cursor, data = "", []


def agent_path(agent: str | None) -> str:
    """Return the path of `agent`; None is the default agent, at the root."""
    return f"/v1/agents/{quote(agent, safe='')}" if agent else ""


def task_path(base: str, task: str) -> str:
    """Return the path of `task` of the agent at `base`."""
    return f"{base}/tasks/{quote(task, safe='')}"


def _refuse(answer: HTTPResponse) -> None:
    status, body = answer.status, answer.read()
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Dropped(_reason(body) or answer.reason)
    raise RequestFailed(_reason(body) or f"{status} {answer.reason}")


def _reason(body: bytes) -> str:
    try:
        content = json.loads(body)
        return str(content.get("error", content)["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


_url = click.option(
    "--url",
    envvar="HEADRACE_URL",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="URL of any gateway.",
)
_token = click.option(
    "--token",
    envvar="HEADRACE_TOKEN",
    metavar="TOKEN",
    help="Bearer token. Prefer HEADRACE_TOKEN, which other processes can't see.",
)


def with_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the gateway's URL and the credential to a command."""
    return _url(_token(command))


with_agent = click.option(
    "--agent", metavar="NAME", help="Agent to use; default: the default agent."
)
