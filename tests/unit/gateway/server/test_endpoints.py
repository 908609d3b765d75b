"""Requests with indexed headers find the same headers as Starlette's."""

import sys

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Scope

from headrace_gateway.server.endpoints import EndpointApp, IndexedHeaders

RAW = [(b"host", b"a"), (b"x-name", b"\xe9"), (b"x-many", b"1"), (b"x-many", b"2"), (b"empty", b"")]


@pytest.mark.parametrize("name", ["host", "Host", "x-name", "X-Many", "empty", "missing"])
def test_finds_what_starlette_finds(name: str) -> None:
    ours, theirs = IndexedHeaders(RAW), Headers(raw=RAW)
    assert (ours.get(name), ours.get(name, "none")) == (theirs.get(name), theirs.get(name, "none"))
    assert (name in ours, ours.getlist(name)) == (name in theirs, theirs.getlist(name))
    assert ours == theirs


def test_a_missing_header_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        IndexedHeaders(RAW)["missing"]


async def _called(app: ASGIApp) -> tuple[list[Message], set[str]]:
    """Return what `app` sends, and the files whose functions served it."""
    sent, files = list[Message](), set[str]()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    def note(frame: object, event: str, _arg: object) -> None:
        if event == "call":
            files.add(getattr(frame, "f_code").co_filename)  # noqa: B009 - typed as an object

    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": RAW}
    sys.setprofile(note)
    try:
        await app(scope, receive, send)
    finally:
        sys.setprofile(None)
    return sent, files


async def test_an_endpoint_gets_indexed_headers_without_starlettes_wrappers() -> None:
    async def endpoint(request: Request) -> ASGIApp:
        assert isinstance(request.headers, IndexedHeaders)
        return PlainTextResponse(request.headers["host"])

    route = Route("/", EndpointApp(endpoint), methods=["POST"])
    sent, files = await _called(route.handle)
    assert sent[-1]["body"] == b"a"
    assert [file for file in files if "_exception_handler" in file] == []
