"""All ways to follow a task behind one interface; a new protocol is one more in a list.

Bindings of one family hand out and take the same cursors, so a client may change between them
whenever it reconnects.
"""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from tests.support.plain_a2a import message
from tests.support.resuming_wire import Cut, Request, ResponseReader, answered

type Json = dict[str, Any]

_OVER = 204
_OK = 200
_RETRYABLE = frozenset({429, 502, 503, 504})
_TRY_AGAIN = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
"""In an error of JSON-RPC's, which has numbers of its own."""

_TASK_ID = re.compile(r"\b\d+-[0-9a-f]{32}\b")


class Refused(Exception):
    """The gateway answers with an error; `retryable` says whether trying again may help."""

    def __init__(self, status: int, output: str) -> None:
        """Keep what it said."""
        super().__init__(f"{status}: {output}")
        self.status = status
        self.retryable = status in _RETRYABLE or any(name in output for name in _TRY_AGAIN)
        self.may_be_sent_again = "retryDelay" in output
        """Whether the gateway says so: what it has refused, it has not taken."""
        found = _TASK_ID.search(output)
        self.task = found.group() if found else ""
        """The task that the answer names; empty: none."""


class NothingLeft(Exception):
    """The cursor is at the end of a finished task."""


@dataclass(frozen=True, slots=True)
class Received:
    """One event as a client got it."""

    cursor: str
    event: Json
    raw: bytes = field(default=b"", compare=False)
    """What it was read from, where the event is spliced into that as it stands in the log."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client asks of a gateway: a new task (`text`), or the rest of one (`task`)."""

    gateway: str
    agent: str
    text: str = ""
    name: str = ""
    """What the new task's message is called; empty: nobody has called it anything."""
    key: str = ""
    """Idempotency-Key that the message is sent under; empty: none."""
    task: str = ""
    cursor: str = ""
    """Empty: from now on, beginning with the Task."""
    cut: Cut | None = None
    window: int = 0
    """Bytes that the kernel takes for the client, about; 0: its default."""
    pace: float = 0
    """Bytes per second at which the client reads; 0: as they come."""

    def message(self) -> Json:
        """Return the new task's message."""
        return message(self.text, **({"messageId": self.name} if self.name else {}))

    def headers(self) -> dict[str, str]:
        """Return the headers that it is asked with."""
        cursor = {"Last-Event-ID": self.cursor} if self.cursor else {}
        return cursor | ({"Idempotency-Key": self.key} if self.key and not self.task else {})


class Incoming(Protocol):
    """One open stream."""

    close_reason: str
    """Why it ended before its task did, as the gateway said; empty: it did not."""
    recovered: bool
    """False: the gateway said that what came after the cursor is lost."""

    def events(self) -> AsyncIterator[Received]:
        """Yield events to the stream's end in good order.

        Raises:
            ConnectionCut: it ended otherwise.
        """


class Binding(Protocol):
    """One protocol."""

    name: str

    def opened(self, ask: Ask) -> AbstractAsyncContextManager[Incoming]:
        """Open a stream.

        Raises:
            ConnectionCut: the connection ended before it began.
            Refused: the gateway answers with an error.
            NothingLeft: the task is over and the cursor at its end.
        """


@dataclass(slots=True)
class SseStream:
    """A stream of server-sent events."""

    answer: ResponseReader
    unwrap: Callable[[Json], Json]
    close_reason: str = ""
    recovered: bool = True
    _rest: bytes = b""

    def __post_init__(self) -> None:
        self.recovered = self.answer.headers.get("headrace-recovered") != "false"

    async def events(self) -> AsyncIterator[Received]:
        """Yield events; see `Incoming.events`."""
        async for piece in self.answer.body():
            *blocks, self._rest = (self._rest + piece).split(b"\n\n")
            for block in blocks:
                if (received := self._read(block.decode())) is not None:
                    yield received
        assert self._rest == b"", f"the stream ends within a frame: {self._rest!r}"

    def _read(self, block: str) -> Received | None:
        fields = dict[str, str]()
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        if "retry" in fields:
            self.close_reason = fields.get("", "")
        if "data" not in fields:
            return None
        data = fields["data"]
        return Received(fields["id"], self.unwrap(json.loads(data)), data.encode())


class SseBinding:
    """A protocol over server-sent events."""

    def __init__(
        self, name: str, request: Callable[[Ask], Request], unwrap: Callable[[Json], Json]
    ) -> None:
        """Ask with `request`; an event is what `unwrap` finds in a frame's data."""
        self.name, self._request, self._unwrap = name, request, unwrap

    def __repr__(self) -> str:
        return self.name

    @asynccontextmanager
    async def opened(self, ask: Ask) -> AsyncIterator[SseStream]:
        """Open a stream; see `Binding.opened`."""
        async with answered(ask.gateway, self._request(ask), ask.cut, window=ask.window) as answer:
            if answer.status == _OVER:
                raise NothingLeft
            kind = answer.headers.get("content-type", "")
            if answer.status != _OK or not kind.startswith("text/event-stream"):
                raise Refused(answer.status, (await answer.whole()).decode())
            answer.pace = ask.pace
            yield SseStream(answer, self._unwrap)


def _base(ask: Ask) -> str:
    return f"/v1/agents/{ask.agent}"


def _rest(method: str) -> Callable[[Ask], Request]:
    def request(ask: Ask) -> Request:
        if not ask.task:
            body: Json | None = {"message": ask.message()}
            return Request("POST", f"{_base(ask)}/message:stream", ask.headers(), body)
        body = {} if method == "POST" else None
        return Request(method, f"{_base(ask)}/tasks/{ask.task}:subscribe", ask.headers(), body)

    return request


def _rest_query(ask: Ask) -> Request:
    if not ask.task:
        return _rest("POST")(ask)
    query = f"?after={quote(ask.cursor)}" if ask.cursor else ""
    return Request("GET", f"{_base(ask)}/tasks/{ask.task}:subscribe{query}")


def _json_rpc(ask: Ask) -> Request:
    method = "SendStreamingMessage"
    params: Json = {"message": ask.message()}
    if ask.task:
        method, params = "SubscribeToTask", {"id": ask.task}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return Request("POST", _base(ask), ask.headers(), body)


def _bare(frame: Json) -> Json:
    return frame


def _result(frame: Json) -> Json:
    assert (frame["jsonrpc"], frame["id"]) == ("2.0", 7)
    event: Json = frame["result"]
    return event


REST_GET = SseBinding("REST GET", _rest("GET"), _bare)
REST_POST = SseBinding("REST POST", _rest("POST"), _bare)
REST_QUERY = SseBinding("REST ?after=", _rest_query, _bare)
JSON_RPC = SseBinding("JSON-RPC", _json_rpc, _result)
