"""Request bodies: read up to a limit, held within limits, and parsed as JSON.

A body is held from its first byte until its request is answered, or its stream has begun. It may
arrive slowly, so without a limit an authenticated caller could have any number of bodies held.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from weakref import WeakValueDictionary

import orjson
from a2a.utils.errors import ContentTypeNotSupportedError, JSONParseError
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from headrace.model import json_text
from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace_gateway.refusals import Malformed, TooManyBytes, TooManyBytesOfOwner, Violation
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.endpoints import headers_of
from headrace_gateway.server.open_requests import check_rate, open_request
from headrace_gateway.server.turns import Turns


class HeldBody:
    """The held bytes of one body."""

    __slots__ = ("_bodies", "_owner", "_size")

    def __init__(self, bodies: "HeldBodies", owner: tuple[str, str]) -> None:
        """Begin with no bytes of `owner`."""
        self._bodies, self._owner, self._size = bodies, owner, 0

    def resize(self, size: int) -> None:
        """Set the held size to `size` bytes.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: a limit is exceeded; the held size stays unchanged.
        """
        if size != self._size:
            self._bodies.add(self._owner, size - self._size)
            self._size = size

    def release(self) -> None:
        """Release all bytes; a second call does nothing."""
        self.resize(0)


class HeldBodies:
    """Counts the bytes of request bodies that a gateway holds."""

    def __init__(self, most: int, most_per_owner: int, largest: int) -> None:
        """Allow `most` bytes in total and `most_per_owner` per owner; -1 is unlimited.

        Both limits are at least `largest`, the maximum size of one body, so that one body always
        fits.
        """
        self._most = _at_least(most, largest)
        self._most_per_owner = _at_least(most_per_owner, largest)
        self._sizes = Counter[tuple[str, str]]()
        """By tenant and owner."""
        self._size = 0
        limits = [limit for limit in (self._most_per_owner, self._most) if limit >= 0]
        self._most_turns = min(limits, default=sys.maxsize) // max(largest, 1)
        self._turns = WeakValueDictionary[tuple[str, str], Turns]()

    def __len__(self) -> int:
        """Return the number of held bytes."""
        return self._size

    def hold(self, caller: Caller, size: int = 0) -> HeldBody:
        """Begin to hold a body of the caller, with `size` bytes already received.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: as `HeldBody.resize`.
        """
        body = HeldBody(self, (caller.tenant, caller.owner))
        if size:
            body.resize(size)
        return body

    def turns(self, caller: Caller) -> Turns:
        """Return the turns of the caller's bodies of unknown size.

        Such a body arrives while it holds one, and is counted after that. There are as many as
        bodies of the maximum size fit into the limits.
        """
        owner = caller.tenant, caller.owner
        turns = self._turns.get(owner)
        if turns is None:
            turns = self._turns[owner] = Turns(self._most_turns)
        return turns

    def add(self, owner: tuple[str, str], size: int) -> None:
        """Add `size` bytes, which may be negative, to those held of the tenant and owner.

        Raises:
            TooManyBytes: the gateway's limit would be exceeded.
            TooManyBytesOfOwner: the owner's limit would be exceeded.
        """
        if size > 0 and 0 <= self._most < self._size + size:
            raise TooManyBytes(
                f"this gateway holds {self._size} bytes of requests, its limit; try another gateway"
            )
        if size > 0 and 0 <= self._most_per_owner < self._sizes[owner] + size:
            raise TooManyBytesOfOwner(
                f"your requests in progress have {self._sizes[owner]} bytes, the limit"
            )
        self._size += size
        self._sizes[owner] += size
        if not self._sizes[owner]:
            del self._sizes[owner]


def _at_least(most: int, largest: int) -> int:
    return most if most < 0 else max(most, largest)


def hold(body: HeldBody) -> HeldBody:
    """Return `body`, and release it at the end of the current task's request.

    Raises:
        LookupError: there is no current request, so nothing would release it.
    """
    request = open_request()
    if request is None:
        raise LookupError("a body must be read within OpenRequests.one")
    request.at_end = body.release
    return body


class BodyTooLarge(HeadraceError):
    """The body exceeds the limit."""

    code = "body_too_large"

    def __init__(self, limit: int, of: str = "") -> None:
        """Keep the limit, in bytes; `of` names the part that it applies to, if not the whole."""
        super().__init__(f"the body exceeds the limit of {limit} bytes{of}")
        self.limit = limit


class BodyEncoded(HeadraceError):
    """The body is compressed."""

    code = "body_encoded"

    def __init__(self, encoding: str) -> None:
        """Name the `encoding`."""
        super().__init__(
            f"content-encoding: bodies are accepted uncompressed (identity), not {encoding[:100]!r}"
        )


class RequestNotWhole(HeadraceError):
    """The request was not complete in time."""

    code = "request_not_whole"


_LONG_STRING = re.compile(rb'"[^"]{4096,}')
"""A file or a text, which is cheap to parse at any length."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits on bodies, in bytes: of one body, and of all that are held at a time."""

    whole: int
    without_files: int
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
        if len(body) > self.without_files:
            long = sum(found.end() - found.start() for found in _LONG_STRING.finditer(body))
            if len(body) - long > self.without_files:
                raise BodyTooLarge(self.without_files, " without its files")
        return body


SMALL = 64 * 1024
"""Maximum bytes of a body that is read although its caller has reached its request rate: enough for
an answer with the request's id, and for operations without a rate limit."""

CALLER = "headrace.caller"
"""Key in a request's scope: its caller, once known."""


async def read_body(request: Request, limits: BodyLimits, most: int | None = None) -> bytes:
    """Return the request's body, which is held until the request is answered.

    `most`: its maximum size in bytes, if that is less than what all bodies may have.

    Raises:
        LookupError: the caller is not known yet (bodies of unknown callers are never read), or the
            request is not within `OpenRequests.one`.
        BodyEncoded: it is compressed.
        TooManyBytes, TooManyBytesOfOwner: too many bytes are held already.
        BodyTooLarge: the declared or actual size exceeds the limit.
        RateLimited: it exceeds `SMALL`, and the caller of the request, which is not counted yet,
            has reached its rate.
        starlette.requests.ClientDisconnect: the client disconnected.
    """
    if CALLER not in request.scope:
        raise LookupError("call_of or caller_of must run before read_body")
    limit = limits.whole if most is None else min(most, limits.whole)
    stated = headers_of(request.scope).first
    if (encoding := stated.get("content-encoding", "identity")).strip().lower() != "identity":
        raise BodyEncoded(encoding)
    declared = stated.get("content-length", "0")
    declared_size = int(declared) if declared.isdecimal() else 0
    if declared_size > limit:
        raise BodyTooLarge(limit)
    if declared_size > SMALL:
        check_rate()
    held = hold(limits.held.hold(request.scope[CALLER]))
    pieces, size, receive, is_more = list[bytes](), 0, request.receive, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        is_more = message.get("more_body", False)
        if piece := message.get("body", b""):
            size += len(piece)
            if size > limit:
                raise BodyTooLarge(limit)
            if size > SMALL >= size - len(piece):
                check_rate()
            held.resize(size)
            pieces.append(piece)
    return limits.check(b"".join(pieces))


def with_body(request: Request, body: bytes, **members: object) -> Request:
    """Return the request with another body, and with `members` of its scope replaced."""
    content = [body]

    async def receive() -> Message:
        if content:
            return {"type": "http.request", "body": content.pop(), "more_body": False}
        return await request.receive()

    return Request({**request.scope, **members} if members else request.scope, receive)


def parse(body: bytes) -> object:
    """Return the parsed JSON.

    Raises:
        JSONParseError: the body is not JSON; the message names the place.
    """
    try:
        return json_text.decode_foreign(body)
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
"""Curl's default content type; routes that allow it read the body as JSON anyway."""


def check_content_type(request: Request, *, form: bool = False) -> None:
    """Check that the body is declared as JSON of some kind, or not declared.

    With `form` the body may also be declared as a form, which is curl's default. This does not
    apply to web pages: a browser sends forms to any site without CORS checks, and always names the
    page's origin.

    Raises:
        ContentTypeNotSupportedError: another type is declared.
    """
    headers = headers_of(request.scope).first
    stated = headers.get("content-type", "").partition(";")[0].strip().lower()
    kind, _, subtype = stated.partition("/")
    is_json = kind == "application" and (subtype.startswith("json") or subtype.endswith("+json"))
    is_curls = form and stated == FORM and "origin" not in headers
    if stated and not is_json and not is_curls:
        raise ContentTypeNotSupportedError(
            f"the body must be application/json or application/a2a+json, not {stated[:100]}"
        )
