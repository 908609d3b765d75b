"""Client connections: limits on incomplete requests, and the backlog of unread bytes."""

import asyncio
import re
from collections import deque
from http import HTTPStatus
from typing import Any, Protocol, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from headrace.model import json_text
from headrace_gateway.server.auth.schemes import repeated_credentials
from headrace_gateway.server.client_pace import EXTENSION, Awaited, Backlog, ReceiveTime
from headrace_gateway.server.incomplete_heads import MOST_BYTES, IncompleteHeads, address_of
from headrace_gateway.server.long_responses import DISCONNECTS, ConnectionDisconnects
from headrace_gateway.timing import TIMING

HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request line and its headers."""

MOST_HEADERS = 256
"""Maximum headers of a request: thousands of short ones cost several times their bytes."""

MOST_PIPELINED = 16
"""Requests that may wait on a connection while an earlier one is being answered."""

MOST_CHUNKS = 16 * 1024
"""Maximum chunks of one body. A read of a quarter of a megabyte may contain 40,000 of them, and no
other connection is served meanwhile."""

HOLD_BY = "headrace.hold_by"
"""Key in a WebSocket scope's extensions: a function that sets what holds its messages."""

_TOO_LARGE = f"the request's head exceeds the limit of {HEAD_BYTES} bytes"

_TOO_MANY_HEADS = (
    f"this gateway holds {MOST_BYTES} bytes of incomplete requests, its limit, and this one is the "
    "oldest of an address in the network that sent most; try again"
)

_INCOMPLETE = "the request was not received within the time limit"

_NO_PROXY = "this gateway is no proxy: CONNECT is not allowed"

_CHUNKED = (b"chunked", b"Chunked")

_NO_CODINGS = "transfer-encoding: must be chunked alone"

_TOO_MANY_HEADERS = f"the request has more than {MOST_HEADERS} headers"

_HOSTS = "a request has one header Host (RFC 9112, section 3.2)"

_ABSOLUTE = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#]*)")
"""The beginning of a request target in absolute form, with its authority."""

_TOO_MANY_CHUNKS = f"the body has more than {MOST_CHUNKS} chunks"

_TRAILERS_TOO_LARGE = f"the body's trailers exceed the limit of {HEAD_BYTES} bytes"

_HEADERS: dict[int, str] = {503: "Retry-After: 1\r\n"}
"""Further headers of refusals, by status."""


def refusal(status: int, name: str, message: str) -> bytes:
    """Return a response that ends its connection."""
    body = json_text.encode({"error": {"code": status, "status": name, "message": message}})
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{_HEADERS.get(status, '')}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


_HEAD = b"HTTP/1.1 "


class HeadBuffer:
    """A transport that holds a response's head until more is written, or the loop's turn ends.

    Everything else is passed to the underlying transport.
    """

    __slots__ = ("_head", "_loop", "_time", "_transport")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, time: ReceiveTime
    ) -> None:
        """Write to `transport` on `loop`, with the connection's `time`."""
        self._transport, self._loop, self._time = transport, loop, time
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the transport's
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write `data`; hold a head so that it is sent together with the next write."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            # A body that begins with these bytes is delayed too, by less than a turn.
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection after everything is written, if the client receives it."""
        self._flush()
        self._transport.close()
        self._time.close_by_force()

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


def write_body(send: Send, piece: bytes) -> bool:
    """Write a piece of the response that `send` sends, as `send` would, without waiting.

    `piece` is not empty. Returns False if nothing was written: `send` may have to wait, to end the
    response or to write it in another way, or it is not uvicorn's own.
    """
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or cycle.flow.write_paused or cycle.disconnected:
        return False
    if not cycle.chunked_encoding or cycle.response_complete:
        return False
    cycle.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    return True


def free_request(send: Send) -> None:
    """Free the parts of the request that `send` answers, except its method; its head is sent.

    A connection keeps them, with its parser, until its next request: 2.5 KB of an idle stream.
    """
    cycle = getattr(send, "__self__", None)
    if type(cycle) is RequestResponseCycle:
        protocol = getattr(cycle.on_response, "__self__", None)
        if isinstance(protocol, HttpProtocol):
            protocol.free_request(cycle)


class OpensSocket(Protocol):
    """The protocol of a WebSocket."""

    def open(self, time: ReceiveTime, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, and take over the connection's time."""


class TooManyPipelined(Exception):
    """A client sends more requests than allowed without waiting for answers."""


class TooManyChunks(Exception):
    """A body comes in more chunks than allowed."""


class _Pipeline(list[Any]):
    """The few requests that wait; uvicorn's deque takes 700 bytes more while there are none."""

    def appendleft(self, request: object) -> None:
        """Add the newest."""
        self.insert(0, request)


class LightEvent:
    """An `asyncio.Event` that takes 48 bytes until a coroutine waits for it, instead of 850.

    For objects that exist many times and are rarely waited for.
    """

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        """Begin unset, or set."""
        self._is_set = is_set
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all coroutines that wait for that."""
        self._is_set = True
        waiting, self._waiting = self._waiting, None
        for each in waiting or ():
            if not each.done():
                each.set_result(None)

    def clear(self) -> None:
        """Unset it."""
        self._is_set = False

    async def wait(self) -> bool:
        """Wait until it is set; return True, as `asyncio.Event` does."""
        if not self._is_set:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            left = [each for each in self._waiting or () if not each.done()]
            self._waiting = [*left, waiting]
            await waiting
        return True


def _light_event(*, is_set: bool = False) -> asyncio.Event:
    """Return an event in place of uvicorn's: a connection has two, and rarely waits for any."""
    return cast("asyncio.Event", LightEvent(is_set=is_set))


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol on httptools, with its backlog in every request's scope.

    Uvicorn itself would store heads of any size, and wait forever for the rest of a request. A
    request that arrives in one piece, as most do, starts no timer.
    """

    parser: Any
    """Httptools' parser; None while a stream is idle, see `free_request`."""

    # Slots, because with more than 30 attributes each connection's dictionary needs 1 kB more.
    __slots__ = (
        "_backlog",
        "_chunks",
        "_disconnects",
        "_framing",
        "_head_bytes",
        "_head_held",
        "_is_ending",
        "_is_handshake",
        "_plain",
        "_time",
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's, passed on
        """Pass the arguments to uvicorn."""
        super().__init__(*arguments, **named)
        self.pipeline = cast("deque[Any]", _Pipeline())
        self._head_bytes = self._head_held = 0
        """Bytes of the incomplete head, and those of them that `IncompleteHeads` counts."""
        self._framing = 0
        """Bytes since the last body bytes: chunk sizes, their extensions, trailers."""
        self._chunks = 0
        self._is_ending = False
        """Whether the answer to what has arrived is the connection's last: no more is read."""
        self._is_handshake = False
        """Whether the request opens a WebSocket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # theirs
        """Begin a connection, and start the timer for its first request."""
        self._plain = transport
        super().connection_made(transport)
        self.flow._is_writable_event = _light_event(is_set=True)  # noqa: SLF001 - theirs
        self._backlog = Backlog(transport, self.flow.drain)
        self._disconnects = ConnectionDisconnects(self.flow.resume_reading)
        timing = cast("ServerConfig", self.config).timing
        self._time = ReceiveTime(self, self._backlog, self.loop, timing)
        self.transport = cast("asyncio.Transport", HeadBuffer(transport, self.loop, self._time))
        self._time.expect(Awaited.REQUEST)
        self._time.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._time.stop()
        self._hold_head(0)
        super().connection_lost(exc)
        self._disconnects.end()

    def free_request(self, cycle: RequestResponseCycle) -> None:
        """Free the parts of the request of `cycle`, except its method, unless another has begun."""
        if cycle is not self._cycle or self._time.awaited is not Awaited.NOTHING:
            return
        # In place: callers that wait for the end of the response have it too.
        scope = cast("dict[str, Any]", cycle.scope)
        method = scope["method"]
        scope.clear()
        scope["method"] = method
        self.headers = []
        self.parser = None

    def data_received(self, data: bytes) -> None:
        """Parse `data`, and update limits and the time for what must come next."""
        if self._is_ending:
            return
        if self.parser is None:
            self.parser = HttpRequestParser(self)
        time = self._time
        if time.awaited is Awaited.BODY:
            time.arrived()
            self._framing += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if time.of is not self:
            return
        if time.awaited is Awaited.BODY and self._framing > HEAD_BYTES:
            self._refuse(431, "INVALID_ARGUMENT", _TRAILERS_TOO_LARGE)
        if time.awaited is Awaited.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(431, "INVALID_ARGUMENT", _TOO_LARGE)
            else:
                self._hold_head(self._head_bytes)
        elif self._head_held:
            self._hold_head(0)
        self._watch_time()

    def _watch_time(self) -> None:
        """Have what is awaited arrive in time: also a request, of a client that awaits nothing."""
        time, cycle = self._time, self._cycle
        if time.awaited is not Awaited.NOTHING:
            time.watch()
        elif cycle is not None and not cycle.response_complete:
            time.stop()
        elif not self.transport.is_closing():
            # Blank lines before a request, or the rest of one that is answered. Uvicorn has
            # stopped its own timer, for whatever arrives.
            time.expect(Awaited.REQUEST)
            time.watch()

    def _should_upgrade(self) -> bool:
        """Return whether the request opens a WebSocket; uvicorn asks several times."""
        return self._is_handshake

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                if self.transport.is_closing():
                    return
                if self._is_handshake:
                    self._open_socket()
                    return
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = HttpRequestParser(self)
            except HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """Return the head of a request that opens no WebSocket, without its header Upgrade.

        Httptools takes what is behind that header for another protocol, also the request's body.
        """
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self._version())]
        for name, value in self.headers:
            if name == b"connection":
                options = [one.strip() for one in value.split(b",")]
                value = b",".join(one for one in options if one.lower() != b"upgrade")  # noqa: PLW2901 - the rest of it
            if name != b"upgrade" and value:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def _version(self) -> bytes:
        version: str = self.parser.get_http_version()
        return version.encode()

    def _open_socket(self) -> None:
        """Pass the connection to the WebSocket protocol."""
        self._hold_head(0)
        self.connections.discard(self)
        socket = self.ws_protocol_class(  # type: ignore[call-arg, misc] # a function of ours
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        socket.connection_made(self._plain)
        self._plain.set_protocol(socket)
        # The head is not written out and parsed again, as by uvicorn: it would have other limits.
        cast("OpensSocket", socket).open(self._time, self.url, self.headers)

    def on_message_begin(self) -> None:
        """Begin a request.

        Raises:
            TooManyPipelined: too many requests wait already. Uvicorn then closes the connection,
                because an answer sent now would be read as the answer to another request.
        """
        if len(self.pipeline) >= MOST_PIPELINED:
            self._time.expect(Awaited.HEAD)
            raise TooManyPipelined
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope["extensions"] = {EXTENSION: self._backlog, DISCONNECTS: self._disconnects}
        self._time.expect(Awaited.HEAD)
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers, which come after the body, are ignored."""
        if self._time.awaited is not Awaited.HEAD:
            return
        if len(self.headers) >= MOST_HEADERS:
            self._refuse(431, "INVALID_ARGUMENT", _TOO_MANY_HEADERS)
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to serve the request, unless its head is too large or ambiguous."""
        if self.transport.is_closing():
            return
        if sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._refuse(431, "INVALID_ARGUMENT", _TOO_LARGE)
            return
        if self.parser.get_method() == b"CONNECT":
            self._refuse(405, "INVALID_ARGUMENT", _NO_PROXY)
            return
        if any(one[0] == b"transfer-encoding" and one[1] not in _CHUNKED for one in self.headers):
            self._refuse(501, "UNIMPLEMENTED", _NO_CODINGS)
            return
        if (ambiguity := self._ambiguity()) is not None:
            self._refuse(400, "INVALID_ARGUMENT", ambiguity)
            return
        if self.url[:1] != b"/" and (target := _ABSOLUTE.match(self.url)) is not None:
            self._resolve(target)
        self._is_handshake = self._opens_socket()
        if self._is_parsed_again():
            return
        self._time.expect(Awaited.BODY)
        self._framing = self._chunks = 0
        earlier = self._cycle
        super().on_headers_complete()
        if (cycle := self._cycle) is not None and cycle is not earlier:
            cycle.message_event = _light_event()

    def _opens_socket(self) -> bool:
        """Return whether the request opens a WebSocket, and does so now.

        Others with the header Upgrade are answered as if they had none (RFC 9110, section 7.8):
        those with another method or with a body, and one that comes before the answer to an
        earlier request.
        """
        if not self.parser.should_upgrade() or self._get_upgrade() != b"websocket":
            return False
        cycle, headers = self._cycle, dict(self.headers)
        return (
            self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and headers.get(b"content-length", b"0").strip(b"0") == b""
            and b"transfer-encoding" not in headers
            and (cycle is None or cycle.response_complete)
        )

    def _is_parsed_again(self) -> bool:
        """Return whether the request's header Upgrade is ignored, see `_head_without_upgrade`."""
        return self.parser.should_upgrade() and not self._is_handshake

    def _ambiguity(self) -> str | None:
        """Return why a proxy may understand the head otherwise than the gateway; None: it can't."""
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        # Two would let them disagree about the request's origin. Before HTTP/1.1 there was none.
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            return _HOSTS
        if len(set(names)) == len(names):
            return None
        repeated = repeated_credentials(names)
        return None if repeated is None else str(repeated)

    def _resolve(self, target: re.Match[bytes]) -> None:
        """Take the host and the path from a target in absolute form."""
        # It takes the place of Host (RFC 9112, section 3.2.2), for all that checks or shows it.
        self.headers[:] = [one for one in self.headers if one[0] != b"host"]
        self.headers.append((b"host", target[1]))
        # Uvicorn takes the whole target for a WebSocket's path.
        path = self.url[target.end() :]
        self.url = path if path.startswith(b"/") else b"/" + path

    def on_chunk_header(self) -> None:
        """Count a chunk of the body.

        Raises:
            TooManyChunks: the body has too many, and has been refused. The rest is not parsed.
        """
        self._chunks += 1
        if self._chunks > MOST_CHUNKS:
            self._refuse(431, "INVALID_ARGUMENT", _TOO_MANY_CHUNKS)
            raise TooManyChunks

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of the body."""
        self._framing = 0
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        if self._is_parsed_again():
            return
        self._time.awaited = Awaited.NOTHING
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP with 400, unless another answer has begun."""
        self._refuse(400, "INVALID_ARGUMENT", msg)

    def _hold_head(self, size: int) -> None:
        """Count `size` bytes of an incomplete head; heads may be refused, also this one."""
        if size != self._head_held:
            self._head_held = size
            address = address_of(self._plain.get_extra_info("peername"))
            cast("ServerConfig", self.config).incomplete_heads.resize(self, address, size)

    def give_way(self) -> None:
        """Refuse the incomplete head: all connections hold too many bytes of them.

        An answer in progress goes on, and the connection ends after it.
        """
        cycle = self._cycle
        if cycle is None or not self._serves_another():
            self._refuse(503, "UNAVAILABLE", _TOO_MANY_HEADS)
            return
        cycle.keep_alive, self._is_ending = False, True
        self._hold_head(0)
        self._time.stop()

    def delays_client(self) -> bool:
        """Return whether the server itself delays what is awaited."""
        return self.flow.read_paused or self._serves_another()

    def refuse_late(self, awaited: Awaited) -> None:
        """Refuse a request that is not complete in time, if one has begun."""
        if awaited is Awaited.REQUEST:
            self.transport.close()
        else:
            self._refuse(408, "DEADLINE_EXCEEDED", _INCOMPLETE)

    def _serves_another(self) -> bool:
        """Return whether an earlier request of this connection is being answered."""
        cycle = self._cycle
        is_served = cycle is not None and not cycle.response_complete
        return is_served and self._time.awaited is Awaited.HEAD

    def _refuse(self, status: int, name: str, message: str) -> None:
        """Answer with the error if there is a request to answer, and close the connection."""
        if not self.transport.is_closing():
            if not self._is_answered():
                self.transport.write(refusal(status, name, message))
            self.transport.close()
        self._hold_head(0)
        self._time.stop()

    def _is_answered(self) -> bool:
        """Return whether an answer would have no request, or would be inside another answer."""
        if self._time.awaited is Awaited.HEAD:
            return self._serves_another()
        return self._cycle is not None and self._cycle.response_started

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        """The newest request and its answer; None at first, which uvicorn does not declare."""
        return self.cycle


class ServerConfig(uvicorn.Config):
    """Uvicorn's configuration, which it passes to every connection, with the gateway's timing."""

    timing = TIMING

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's, passed on
        """Pass the arguments to uvicorn."""
        super().__init__(*arguments, **named)
        self.incomplete_heads = IncompleteHeads()
        """The incomplete heads of all connections."""
