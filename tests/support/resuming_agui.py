"""Follow an AG-UI run through each way to resume it, with AG-UI's own cursors.

What leads a stream that is come back to stands under the cursor of the last frame that it accounts
for: a client that has that frame skips it.
"""

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from websockets.frames import Close

from headrace.model.entry import Entry, parse_stamp
from headrace_gateway.protocols.agui.fold import Fold
from tests.support.event_stream import Json
from tests.support.resuming import Client
from tests.support.resuming_bindings import Ask, Binding, Received, Refused, SseBinding
from tests.support.resuming_log import assert_exact
from tests.support.resuming_websocket import Socket
from tests.support.resuming_wire import ConnectionCut, Request, Wire, answered
from tests.support.stored_log import read_log, subject_of

_OK = 200
_PASSING = {
    "disconnected",
    "bus_unavailable",
    "log_full",
    "restarting",
    "state_unavailable",
    "stopping",
    "unsettled",
    "too_many_waiting",
}
"""Codes of a RUN_ERROR that are not the run's: it goes on, or may be started again."""
_ENDS = {"RUN_FINISHED", "RUN_ERROR"}


def has_passed(event: Json) -> bool:
    """Tell whether an event says that the connection is over and not the run."""
    return event.get("type") == "RUN_ERROR" and event.get("code") in _PASSING


class RunClient(Client):
    """Starts a run, or joins one, and sees it to its end; its `task` is a thread and a run."""

    def assert_whole(self, run: list[Received]) -> None:
        """Return if it has seen just what it should have of all frames of its run."""
        begin = _place(self._begin)
        assert_exact(self.received, [frame for frame in run if _place(frame.cursor) > begin])

    def _take(self, received: Received) -> None:
        kind = received.event["type"]
        if not self.task:
            self.task = f"{received.event['threadId']}/{received.event['runId']}"
        self.told.set()
        if self.joined:
            assert kind == "RUN_STARTED", kind
            self._begin = received.cursor
        if _place(received.cursor) > _place(self.cursor):
            self.received.append(received)
        self.over = kind in _ENDS


def _place(cursor: str) -> tuple[int, int]:
    """Return where a frame stands; without a cursor: before all."""
    generation, _, number = cursor.rpartition(":")[2].partition(".")
    return int(generation or 0), int(number or 0)


async def whole_run(gateway: str, nats_url: str, agent: str, client: RunClient) -> list[Received]:
    """Return every frame of the client's run, folded from the log as NATS has it."""
    context = urlencode({"contextId": client.task.partition("/")[0]})
    ask = Request("GET", f"/v1/agents/{agent}/tasks?{context}")
    async with answered(gateway, ask) as answer:
        body = await answer.whole()
        assert answer.status == _OK, body
    [task] = [found["id"] for found in json.loads(body)["tasks"]]
    fold, received = Fold(1), list[Received]()
    for message in await read_log(nats_url, agent, task):
        stamp = parse_stamp(subject_of(agent, task), message.headers)
        entry = Entry(stamp, message.lines, message.sequence, message.time)
        for frame in fold.read(entry):
            received.append(Received(f"{stamp.log}:{frame.generation}.{frame.number}", frame.event))
    return received


def _base(ask: Ask) -> str:
    return f"/v1/agents/{ask.agent}/ag-ui"


def _headers(ask: Ask) -> dict[str, str]:
    return ask.headers()


def _input(ask: Ask) -> Json:
    """Return the input of a new run, or of one that has been asked for before."""
    thread, _, run = (ask.task or f"{uuid.uuid4()}/{uuid.uuid4()}").partition("/")
    text = {"id": run, "role": "user", "content": ask.text or "what was said before"}
    body = {"threadId": thread, "runId": run, "state": {}, "messages": [text]}
    return body | {"tools": [], "context": [], "forwardedProps": {}}


def _run(ask: Ask) -> Request:
    return Request("POST", _base(ask), _headers(ask), _input(ask))


def _named(ask: Ask) -> dict[str, str]:
    thread, _, run = ask.task.partition("/")
    return {"threadId": thread, "runId": run}


def _attach(request: Callable[[Ask, dict[str, str]], Request]) -> Callable[[Ask], Request]:
    return lambda ask: request(ask, _named(ask)) if ask.task else _run(ask)


def _again(ask: Ask, named: dict[str, str]) -> Request:
    # Without a cursor the same request would be another run.
    return _run(ask) if ask.cursor else _post(ask, named)


def _post(ask: Ask, named: dict[str, str]) -> Request:
    return Request("POST", f"{_base(ask)}/attach", _headers(ask), named)


def _get(ask: Ask, named: dict[str, str]) -> Request:
    return Request("GET", f"{_base(ask)}/attach?{urlencode(named)}", _headers(ask))


def _query(ask: Ask, named: dict[str, str]) -> Request:
    after = {"after": ask.cursor} if ask.cursor else {}
    return Request("GET", f"{_base(ask)}/attach?{urlencode(named | after)}")


def _bare(frame: dict[str, object]) -> dict[str, object]:
    return frame


@dataclass(slots=True)
class SocketStream:
    """One run on a socket of its own."""

    socket: Socket
    close_reason: str = ""
    recovered: bool = True

    async def events(self) -> AsyncIterator[Received]:
        """Yield events; see `Incoming.events`."""
        async for messages in self.socket.messages():
            if isinstance(messages, Close):
                raise ConnectionCut(f"closed with {messages}")
            if "cursor" not in messages:
                is_passing = has_passed(messages.get("event", messages))
                raise Refused(503 if is_passing else 400, json.dumps(messages))
            self.recovered = self.recovered and messages.get("recovered", True)
            yield Received(messages["cursor"], messages["event"])


class SocketBinding:
    """Runs over a WebSocket."""

    name = "AG-UI WebSocket"

    def __repr__(self) -> str:
        return self.name

    @asynccontextmanager
    async def opened(self, ask: Ask) -> AsyncIterator[SocketStream]:
        """Open a stream; see `Binding.opened`."""
        wire = await Wire.open(ask.gateway, ask.cut)
        try:
            place = urlsplit(ask.gateway).netloc
            socket = Socket(wire, f"ws://{place}{_base(ask)}/ws?cursors=true")
            await socket.shake_hands()
            attach = {"attach": _named(ask) | {"after": ask.cursor}}
            await socket.send(attach if ask.task else _input(ask))
            yield SocketStream(socket)
        finally:
            wire.close()


ATTACH_GET = SseBinding("AG-UI attach GET", _attach(_get), _bare)
AGUI: tuple[Binding, ...] = (
    ATTACH_GET,
    SseBinding("AG-UI attach POST", _attach(_post), _bare),
    SseBinding("AG-UI attach ?after=", _attach(_query), _bare),
    SseBinding("AG-UI run again", _attach(_again), _bare),
    SocketBinding(),
)
"""They take each other's cursors."""
