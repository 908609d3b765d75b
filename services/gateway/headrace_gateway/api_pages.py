"""The routes of the OpenAPI document and of its page, both made with the first request for one."""

import gzip
from dataclasses import dataclass
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.lazy import Lazy
from headrace.model import json_text
from headrace_gateway.openapi import DOCUMENT, PAGE
from headrace_gateway.server.json_response import JSON

_GUARDED = {
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class MadeOnce:
    """Bytes that are the same for all clients."""

    content: bytes
    compressed: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, content: bytes, media_type: str, **headers: str) -> "MadeOnce":
        """Return the content with its headers, an ETag among them."""
        # Weak, because the compressed content has the same one.
        etag = f'W/"{blake2b(content, digest_size=12).hexdigest()}"'
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        whole = {**_GUARDED, **named, "ETag": etag, "Content-Type": media_type}
        return cls(content, gzip.compress(content, mtime=0), whole)

    def answer(self, request: Request) -> Response:
        """Return the response: 304 if the client has it."""
        if self.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, 200, {**self.headers, "Content-Encoding": "gzip"})
        return Response(self.content, 200, self.headers)


class OpenApiPages:
    """The endpoints."""

    def __init__(self) -> None:
        """Serve the document of all protocols, which is the same for all callers."""
        self._made = Lazy(_pages)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(DOCUMENT, self._document, methods=["GET"]),
            Route(PAGE, self._page, methods=["GET"]),
        ]

    async def _document(self, request: Request) -> Response:
        return (await self._made.ready())[0].answer(request)

    async def _page(self, request: Request) -> Response:
        return (await self._made.ready())[1].answer(request)


def _pages() -> tuple[MadeOnce, MadeOnce]:
    # Here, because the protocols' models are a large import.
    from headrace_gateway.api_sections import SECTIONS  # noqa: PLC0415
    from headrace_gateway.openapi.document import openapi_document  # noqa: PLC0415
    from headrace_gateway.openapi.html_page import POLICY, html_page  # noqa: PLC0415

    document = openapi_document(SECTIONS)
    page = html_page(document)
    return (
        MadeOnce.of(json_text.encode(document), JSON),
        MadeOnce.of(page, "text/html; charset=utf-8", Content_Security_Policy=POLICY),
    )
