"""Reading a request's body, never more of it than the limit, and JSON."""

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
        """Keep the limit, in bytes; `of` says of which part, if it is not of all."""
        super().__init__(f"the body exceeds the limit of {limit} bytes{of}")
        self.limit = limit


class RequestNotWhole(HeadraceError):
    """The rest of a request did not come in time."""

    code = "request_not_whole"


_LONG_STRING = re.compile(rb'"[^"]{4096,}')
"""A file or a text, which costs little to read, however long it is."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be, in bytes, and all that are held at a time."""

    whole: int
    beside_files: int
    """All but its long strings. Reading that takes time in which the gateway does nothing else, and
    no log would take it."""
    held: HeldBodies

    def check(self, body: bytes) -> bytes:
        """Return `body`, which is JSON or is to be.

        Raises:
            BodyTooLarge: it is larger than it may be.
        """
        if len(body) > self.whole:
            raise BodyTooLarge(self.whole)
        if len(body) > self.beside_files:
            long = sum(found.end() - found.start() for found in _LONG_STRING.finditer(body))
            if len(body) - long > self.beside_files:
                raise BodyTooLarge(self.beside_files, " beside its files")
        return body


CALLER = "headrace.caller"
"""Where a request's scope has who sends it, once that is known."""


async def read_body(request: Request, limits: BodyLimits) -> bytes:
    """Return the request's body, which is held until the request is answered.

    Raises:
        LookupError: it is not known yet who sends it; nothing is read from whom nobody knows. Or
            it is not within `OpenRequests.one`.
        TooManyBytes, TooManyBytesOfOwner: too much is held already.
        BodyTooLarge: it says so, or turns out to be, larger than it may be.
        starlette.requests.ClientDisconnect: the client went away meanwhile.
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
    """Return what the JSON says.

    Raises:
        JSONParseError: it is no JSON; says where.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise JSONParseError(f"the body is not JSON: {error}") from None


def parse_object(body: bytes) -> Json:
    """Return the JSON object.

    Raises:
        JSONParseError: it is no JSON.
        Malformed: it is JSON, but no object.
    """
    parsed = parse(body)
    if not isinstance(parsed, dict):
        raise Malformed([Violation("", "must be an object")])
    return parsed


FORM = "application/x-www-form-urlencoded"
"""What curl says of a body when it is not told: JSON, all the same, where it is sent to a route."""


def check_content_type(request: Request, *, form: bool = False) -> None:
    """Return if the body is declared as JSON of some kind, or not at all.

    With `form` it may also be declared as a form, as those do who leave it to curl. Not by pages:
    a browser sends a form anywhere without asking, and always says of which page it is.

    Raises:
        ContentTypeNotSupportedError: it is declared as something else.
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
"""Levels of ``data``, ``metadata`` and AG-UI's fields: protobuf's parsers stop at 100 in all."""

RULE = f"must not be nested deeper than {MAX_DEPTH} levels"


def is_too_deep(value: object) -> bool:
    """Tell whether the objects and lists in `value` nest deeper than `MAX_DEPTH`."""
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
