"""JSON responses, encoded with orjson."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.model import json_text

JSON = "application/json"
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of a response that must not be cached."""


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return `content` as JSON."""
    return Response(json_text.encode(content), status, headers, JSON)


def cacheable(request: Request, content: object, max_age: int) -> Response:
    """Return `content` as JSON with an ETag, or 304 if the client has it.

    Caches may keep it for `max_age` seconds.
    """
    body = json_text.encode(content)
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": f"public, max-age={max_age}"}
    return revalidated(request, body, headers)


def revalidated(request: Request, body: bytes, headers: dict[str, str]) -> Response:
    """Return `body` as JSON, or 304 if the client has it by its ETag or Last-Modified."""
    known = request.headers.get("if-none-match")
    if known is not None:
        has_it = headers["ETag"].removeprefix("W/") in _etags(known) or known.strip() == "*"
    else:
        has_it = _is_as_new(request.headers.get("if-modified-since"), headers.get("Last-Modified"))
    if has_it:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


def _etags(header: str) -> set[str]:
    return {etag.strip().removeprefix("W/") for etag in header.split(",")}


def _is_as_new(since: str | None, modified: str | None) -> bool:
    if since is None or modified is None:
        return False
    try:
        return parsedate_to_datetime(modified) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):
        return False
