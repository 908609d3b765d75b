"""Requests whose headers are looked up often, and endpoints for them without Starlette's wrappers.

A submission looks up about 30 headers, half of which it does not have. Starlette searches its list
for each, and raises and catches an exception for each missing one.
"""

from typing import overload, override

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from headrace_gateway.server.open_requests import Endpoint


class IndexedHeaders(Headers):
    """Headers that are indexed by name."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        """Index `raw`, an ASGI scope's headers, whose names are in lower case."""
        super().__init__(raw=raw)
        # Reversed, because the first of several headers with one name counts.
        self._first = {name.decode("latin-1"): value for name, value in reversed(raw)}

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get[Default](self, key: str, default: Default, /) -> str | Default: ...
    @override
    def get(self, key: str, default: object = None, /) -> object:
        found = self._first.get(key.lower())
        return default if found is None else found.decode("latin-1")

    @override
    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()].decode("latin-1")

    @override
    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._first

    @override
    def getlist(self, key: str) -> list[str]:
        return super().getlist(key) if key in self else []


class IndexedRequest(Request):
    """A request with indexed headers."""

    _indexed: IndexedHeaders | None = None

    @property
    @override
    def headers(self) -> Headers:
        """The request's headers."""
        if self._indexed is None:
            self._indexed = IndexedHeaders(self.scope["headers"])
        return self._indexed


class EndpointApp:
    """An endpoint as an ASGI application; the endpoint answers its errors itself.

    Starlette would wrap a function in four others, for error handlers that it does not need.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Pass requests to `endpoint`."""
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._endpoint(IndexedRequest(scope, receive, send))
        await response(scope, receive, send)
