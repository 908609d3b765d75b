"""A2A versions and Hector's forms: which of them a request uses, and each version's binding."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, VERSION_HEADER
from a2a.utils.errors import VersionNotSupportedError
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from headrace.lazy import Lazy
from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.extensions import AGUI_MEDIA_TYPES
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.follow import FOLLOW
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.hector.events import DONE, DONE_MARK
from headrace_gateway.server.endpoints import headers_of
from headrace_gateway.server.json_response import JSON
from headrace_gateway.streaming.renderer import Renderer
from headrace_gateway.streaming.sse import LOG_LINES

_ID = b"id: "
_RPC_HEAD = b'id: %b:%d\ndata: {"jsonrpc":"2.0","id":'
_RPC_TAIL = b',"result":%b}\n\n'


class JsonRpcFrames:
    """Frames whose ``data:`` is a JSON-RPC result; each client's request id is spliced in."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames, split where the client's id is inserted."""
        log, first, lines = entry.stamp.log.encode(), entry.generation, entry.lines
        pieces = [_RPC_HEAD % (log, first + skip)]
        pieces += [
            _RPC_TAIL % lines[offset] + _RPC_HEAD % (log, first + offset + 1)
            for offset in range(skip, len(lines) - 1)
        ]
        pieces.append(_RPC_TAIL % lines[-1])
        return tuple(pieces)


@dataclass(frozen=True, slots=True)
class OfTask:
    """Another renderer's frames, with the task's id spliced in before each cursor."""

    inner: EntryRenderer

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames, split where the task's id is inserted."""
        frames = b"".join(self.inner.render(entry, skip))
        if not frames:
            return (b"",)
        # JSON contains no line breaks, so this separator only occurs between frames.
        *ended, last = frames.removeprefix(_ID).split(b"\n\n" + _ID)
        return (_ID, *(one + b"\n\n" + _ID for one in ended), last)


JSON_RPC = JsonRpcFrames()


SERVED = (PROTOCOL_VERSION_1_0,)
"""Default versions by major and minor number, the preferred one first."""

BOTH = (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
"""Versions of the JSON bindings."""

OLD = (PROTOCOL_VERSION_0_3,)
"""Versions of routes and services that exist only in 0.3."""

_A2A_JSON = "application/a2a+json"
_HEADER = VERSION_HEADER.lower()

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(\.\d{1,9})?")


def requested_version(request: HTTPConnection) -> str | None:
    """Return the version stated in a header or the query; None if the request states none.

    An empty version means 0.3, as A2A specifies.

    Raises:
        VersionNotSupportedError: the stated version is not a version number.
    """
    places = (request.headers, request.query_params)
    values = [place[VERSION_HEADER] for place in places if VERSION_HEADER in place]
    stated = next((value for value in values if value.strip()), None)
    if stated is None:
        return PROTOCOL_VERSION_0_3 if values else None
    found = _VERSION.fullmatch(stated.strip())
    if found is None:
        raise VersionNotSupportedError(f"{VERSION_HEADER} {stated!r} is not of the form 1.0")
    return f"{int(found[1])}.{int(found[2])}"


def check_version(
    request: HTTPConnection, *, looks_like: str, served: Collection[str] = SERVED
) -> str:
    """Return the request's version; `looks_like` is the version of its shape.

    Raises:
        VersionNotSupportedError: it is not in `served`; names the versions that are.
    """
    stated = headers_of(request.scope).first.get(_HEADER)
    if stated is not None and stated in served:
        return stated  # As most clients state it.
    version = requested_version(request) or looks_like
    if version not in served:
        raise VersionNotSupportedError(
            f"A2A {version} is not supported here; supported: {', '.join(served)}"
        )
    return version


def shape_of_message(params: Json) -> str:
    """Return the version that the message in `params` looks like: 0.3's parts have a ``kind``."""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    has_kind = isinstance(parts, list) and any(
        isinstance(part, dict) and "kind" in part for part in parts
    )
    return PROTOCOL_VERSION_0_3 if has_kind else PROTOCOL_VERSION_1_0


def shape_of_call(method: str) -> str:
    """Return the version of a JSON-RPC method name: 0.3's are like ``message/send``."""
    return PROTOCOL_VERSION_0_3 if "/" in method else PROTOCOL_VERSION_1_0


_LONGEST_KEPT = 1024
"""Maximum characters of a header Accept whose forms are kept."""


class HectorForms(NamedTuple):
    """The forms that a client requests."""

    shapes: bool
    """Whether it requests answers in the shapes of Hector's A2A."""
    events: bool
    """Whether it requests Hector's AG-UI events in place of A2A's own."""
    ending: bytes
    """The end of a stream of server-sent events; empty unless the client requests one."""


def media_type(request: HTTPConnection) -> str:
    """Return the JSON media type of the response: A2A's own if the client accepts it by name."""
    return _A2A_JSON if _A2A_JSON in request.headers.get("accept", "") else JSON


def forms_of(request: HTTPConnection) -> HectorForms:
    """Return which of Hector's forms the request asks for."""
    headers = headers_of(request.scope)
    accept = headers.first.get("accept", "")
    if not headers.are_single:
        accept = ",".join(headers.getlist("accept"))
    if request.scope.get("query_string") or len(accept) > _LONGEST_KEPT:
        return _forms(request.query_params, accept)
    return _forms_by_accept(accept)


@lru_cache(maxsize=256)
def _forms_by_accept(accept: str) -> HectorForms:
    """Return the forms of a request without a query; most requests accept the same as others."""
    return _forms(QueryParams(), accept)


def _forms(query: QueryParams, accept: str) -> HectorForms:
    form, accepted = query.get("format"), accept.lower()
    is_shaped = form == "hector"
    ending = DONE if is_shaped else b""
    wants_events = form == "agui" or any(one in accepted for one in AGUI_MEDIA_TYPES)
    return HectorForms(is_shaped, wants_events, DONE_MARK if query.get("done") == "1" else ending)


@dataclass(frozen=True, slots=True)
class VersionBinding:
    """One version in one binding."""

    version: str
    """A2A version, major and minor number."""
    operations: Mapping[str, str]
    """Operation names by method."""
    params: Callable[[str, Json], Json]
    """Converts parameters to those of 1.0; raises Malformed."""
    answer: Callable[[str, Json], Any]
    """Converts an operation's 1.0 result to this version."""
    event: Callable[[Json], Json]
    """Converts a 1.0 StreamResponse to this version."""
    entry_renderer: EntryRenderer
    """Renders its events as frames."""
    renderer: Callable[[Renderer, int], Renderer] | None = None
    """Wraps a renderer to start after a generation, if its output depends on the earlier run."""
    event_name: str = ""
    """Name of its server-sent events; empty for none."""
    unknown_codes: frozenset[int] = frozenset()
    """JSON-RPC codes that this version does not have; they become `INTERNAL`."""
    streams_errors: bool = False
    """Whether a failed streaming operation is answered with an event stream of one event."""


@dataclass(frozen=True, slots=True)
class OldVersion:
    """The bindings of A2A 0.3."""

    rpc: Callable[[str, Json], VersionBinding]
    """Returns the binding of a JSON-RPC call from its method and unconverted parameters."""
    rest: Callable[[str, Json], VersionBinding]
    """Returns the binding of a REST request from its operation and unconverted parameters."""
    card: Callable[[Json, str], Json]
    """Returns a signed 1.0 card with the fields that 0.3 needs.

    The second argument is the default agent's name; requests that name no agent go to it.
    """


class Versions:
    """The bindings of all served versions; 0.3 is loaded with its first use."""

    def __init__(self, old: Lazy[OldVersion]) -> None:
        """Serve 1.0, and 0.3 as `old` words it."""
        self._old = old

    async def rpc(self, version: str, method: str, params: Json) -> VersionBinding:
        """Return the binding of a JSON-RPC call, by its method and unconverted parameters."""
        if version == PROTOCOL_VERSION_1_0:
            return RPC
        return (await self._old.ready()).rpc(method, params)

    async def rest(self, version: str, operation: str, params: Json) -> VersionBinding:
        """Return the binding of a REST request, by its operation and unconverted parameters."""
        if version == PROTOCOL_VERSION_1_0:
            return HTTP
        return (await self._old.ready()).rest(operation, params)

    async def card(self, card: Json, default_agent: str) -> Json:
        """Return a signed 1.0 card with the fields of all versions, as `OldVersion.card`."""
        return (await self._old.ready()).card(card, default_agent)


@dataclass(frozen=True, slots=True)
class ConvertingRenderer:
    """Renders another version's events: converts them, then renders with `inner`."""

    event: Callable[[Json], Json]
    inner: EntryRenderer

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames."""
        lines = [json_text.encode(self.event(event)) for event in entry.parsed()]
        return self.inner.render(replace(entry, lines=lines), skip)


def _same_params(operation: str, params: Json) -> Json:  # noqa: ARG001 - no conversion needed
    return params


def _same_answer(operation: str, result: Json) -> Json:  # noqa: ARG001 - as _same_params
    return result


def _same_event(event: Json) -> Json:
    return event


def _current(renderer: EntryRenderer) -> VersionBinding:
    names = {name: name for name in (*UNARY, *STREAMING, FOLLOW)}
    return VersionBinding(
        PROTOCOL_VERSION_1_0, names, _same_params, _same_answer, _same_event, renderer
    )


INTERNAL = -32603
"""JSON-RPC code for errors that a version has no code for."""

RPC = _current(JSON_RPC)
"""1.0 over JSON-RPC."""

HTTP = _current(LOG_LINES)
"""1.0 over REST."""
