"""Reading a request's body up to a limit, and parsing it as JSON."""

import re
from dataclasses import dataclass

import orjson
from a2a.utils.errors import ContentTypeNotSupportedError, JSONParseError
from starlette.requests import Request

from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.held_bodies import HeldBodies
from headrace_gateway.server.open_requests import hold


class BodyTooLarge(HeadraceError):
    """The body exceeds the limit."""

    code = "body_too_large"

    def __init__(self, limit: int, of: str = "") -> None:
        """Keep the limit, in bytes; `of` names the part that it applies to, if not the whole."""
        super().__init__(f"the body exceeds the limit of {limit} bytes{of}")
        self.limit = limit


class RequestNotWhole(HeadraceError):
    """The request was not complete in time."""

    code = "request_not_whole"


_LONG_STRING = re.compile(rb'"[^"]{4096,}')
"""A file or a text, which is cheap to parse at any length."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits on bodies, in bytes: of one body, and of all that are held at a time."""

    whole: int
    beside_files: int
    """Limit without long strings. Parsing the rest blocks the gateway's event loop, and no log
    would store so much."""
    held: HeldBodies

    def check(self, body: bytes) -> bytes:
        """Return `body`, which should be JSON.

        Raises:
            BodyTooLarge: the body exceeds a limit.
        """
        if len(body) > self.whole:
            raise BodyTooLarge(self.whole)
        if len(body) > self.beside_files:
            long = sum(found.end() - found.start() for found in _LONG_STRING.finditer(body))
            if len(body) - long > self.beside_files:
                raise BodyTooLarge(self.beside_files, " beside its files")
        return body


CALLER = "headrace.caller"
"""Key in a request's scope: its caller, once known."""


async def read_body(request: Request, limits: BodyLimits) -> bytes:
    """Return the request's body, which is held until the request is answered.

    Raises:
        LookupError: the caller is not known yet (bodies of unknown callers are never read), or the
            request is not within `OpenRequests.one`.
        TooManyBytes, TooManyBytesOfOwner: too many bytes are held already.
        BodyTooLarge: the declared or actual size exceeds the limit.
        starlette.requests.ClientDisconnect: the client disconnected.
    """
    if CALLER not in request.scope:
        raise LookupError("call_of, or caller_of, comes before read_body")
    limit, declared = limits.whole, request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise BodyTooLarge(limit)
    held = hold(limits.held.hold(request.scope[CALLER]))
    pieces, size = list[bytes](), 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(limit)
        held.resize(size)
        pieces.append(piece)
    return limits.check(b"".join(pieces))


def parse(body: bytes) -> object:
    """Return the parsed JSON.

    Raises:
        JSONParseError: the body is not JSON; the message names the place.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise JSONParseError(f"the body is not JSON: {error}") from None


def parse_object(body: bytes) -> Json:
    """Return the parsed JSON object.

    Raises:
        JSONParseError: the body is not JSON.
        Malformed: the JSON is not an object.
    """
    parsed = parse(body)
    if not isinstance(parsed, dict):
        raise Malformed([Violation("", "must be an object")])
    return parsed


FORM = "application/x-www-form-urlencoded"
"""Curl's default content type; routes that allow it read the body as JSON all the same."""


def check_content_type(request: Request, *, form: bool = False) -> None:
    """Check that the body is declared as JSON of some kind, or not declared.

    With `form` the body may also be declared as a form, which is curl's default. This does not
    apply to web pages: a browser sends forms to any site without CORS checks, and always names the
    page's origin.

    Raises:
        ContentTypeNotSupportedError: another type is declared.
    """
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind, _, subtype = stated.partition("/")
    is_json = kind == "application" and (subtype.startswith("json") or subtype.endswith("+json"))
    is_curls = form and stated == FORM and "origin" not in request.headers
    if stated and not is_json and not is_curls:
        raise ContentTypeNotSupportedError(
            f"the body must be application/json or application/a2a+json, not {stated[:100]}"
        )


MAX_DEPTH = 90
"""Maximum levels of ``data``, ``metadata`` and AG-UI's fields; protobuf parsers stop at 100."""

RULE = f"must not be nested deeper than {MAX_DEPTH} levels"


def is_too_deep(value: object) -> bool:
    """Return whether the objects and lists in `value` nest deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
