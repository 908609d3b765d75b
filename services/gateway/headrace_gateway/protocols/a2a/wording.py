"""How one version of A2A words requests and answers in one binding; operations speak 1.0."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from a2a.utils.constants import PROTOCOL_VERSION_1_0

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.event_frames import JSON_RPC
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.streaming.sse import LOG_LINES


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
    rest: Callable[[str, str, Json], Wording]
    """Returns that of a REST request: its version, the operation, its parameters as they came."""
    card: Callable[[Json], Json]
    """Returns a signed card of 1.0 with what the others need beside it."""


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
