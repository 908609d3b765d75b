"""Which version of A2A a request speaks, and how each is read and answered."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, VERSION_HEADER
from a2a.utils.errors import VersionNotSupportedError
from starlette.requests import HTTPConnection

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.event_frames import JSON_RPC
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.streaming.renderer import Renderer
from headrace_gateway.streaming.sse import LOG_LINES

SERVED = (PROTOCOL_VERSION_1_0,)
"""Versions by major and minor number, the best one first, where nothing else is said."""

BOTH = (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
"""Those of the JSON bindings."""

OLD = (PROTOCOL_VERSION_0_3,)
"""Those of routes and services that are 0.3's own."""

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(\.\d{1,9})?")


def requested_version(request: HTTPConnection) -> str | None:
    """Return the version that the request states, in a header or the query; None: it states none.

    One that is empty is 0.3, as A2A says.

    Raises:
        VersionNotSupportedError: it is no version.
    """
    places = (request.headers, request.query_params)
    said = [place[VERSION_HEADER] for place in places if VERSION_HEADER in place]
    stated = next((value for value in said if value.strip()), None)
    if stated is None:
        return PROTOCOL_VERSION_0_3 if said else None
    found = _VERSION.fullmatch(stated.strip())
    if found is None:
        raise VersionNotSupportedError(f"{VERSION_HEADER} {stated!r} is not of the form 1.0")
    return f"{int(found[1])}.{int(found[2])}"


def check_version(
    request: HTTPConnection, *, looks_like: str, served: Collection[str] = SERVED
) -> str:
    """Return the request's version if it is `served`; `looks_like` is the version of its shape.

    Raises:
        VersionNotSupportedError: it is not; names the versions that are.
    """
    version = requested_version(request) or looks_like
    if version not in served:
        raise VersionNotSupportedError(
            f"A2A {version} is not served here, only {', '.join(served)}"
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
    """Return the version that a JSON-RPC call looks like: 0.3's methods are ``message/send``."""
    return PROTOCOL_VERSION_0_3 if "/" in method else PROTOCOL_VERSION_1_0


@dataclass(frozen=True, slots=True)
class Wording:
    """One version in one binding."""

    version: str
    """Of A2A, by major and minor number."""
    operations: Mapping[str, str]
    """What each of its methods is called among our operations."""
    params: Callable[[str, Json], Json]
    """Returns an operation's 1.0 parameters; raises Malformed."""
    answer: Callable[[str, Json], Any]
    """Returns an operation's 1.0 result as this version has it."""
    event: Callable[[Json], Json]
    """Returns a 1.0 StreamResponse as this version has it."""
    entry_renderer: EntryRenderer
    """Its events, framed."""
    renderer: Callable[[Renderer, int], Renderer] | None = None
    """Returns what has another renderer show a stream behind a generation, where what it shows
    depends on what came before it in its run."""
    event_name: str = ""
    """What server-sent events of its own are called; empty: they have no name."""
    unknown_codes: frozenset[int] = frozenset()
    """JSON-RPC codes that it does not have; they become `INTERNAL`."""
    streams_errors: bool = False
    """Whether a streaming operation that fails is answered with an event stream of one event."""


@dataclass(frozen=True, slots=True)
class Versions:
    """How requests of every version that is served are read and answered."""

    rpc: Mapping[str, Wording]
    """Over JSON-RPC, by version."""
    old_rest: Callable[[str, Json], Wording]
    """Returns that of a REST request in 0.3: the operation, its parameters as they came."""
    card: Callable[[Json, str], Json]
    """Returns a signed card of 1.0 with what the others need beside it.

    Its second argument names the default agent, which is where a request without a name goes.
    """


@dataclass(frozen=True, slots=True)
class Reworded:
    """Another version's events: they are turned, then rendered as ever."""

    event: Callable[[Json], Json]
    inner: EntryRenderer

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames."""
        lines = [orjson.dumps(self.event(event)) for event in entry.parsed()]
        return self.inner.render(replace(entry, lines=lines), skip)


def _same_params(operation: str, params: Json) -> Json:  # noqa: ARG001 - they need no turning
    return params


def _same_answer(operation: str, result: Json) -> Json:  # noqa: ARG001 - as _same_params
    return result


def _same_event(event: Json) -> Json:
    return event


def _current(renderer: EntryRenderer) -> Wording:
    names = {name: name for name in (*UNARY, *STREAMING)}
    return Wording(PROTOCOL_VERSION_1_0, names, _same_params, _same_answer, _same_event, renderer)


INTERNAL = -32603
"""JSON-RPC's code for what a version has no code for."""

RPC = _current(JSON_RPC)
"""1.0 over JSON-RPC."""

HTTP = _current(LOG_LINES)
"""1.0 over REST."""
