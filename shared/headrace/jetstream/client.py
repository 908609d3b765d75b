"""nats-py's client, with fixes and optimizations that are only possible inside it."""

import asyncio
import itertools
import json
import re
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, override

import nats.errors
from nats.aio.client import PING_PROTO, Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport, Transport
from nats.errors import (
    ConnectionClosedError,
    ConnectionDrainingError,
    MaxPayloadError,
    ProtocolError,
    StaleConnectionError,
)
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import Header
from nats.protocol.parser import Parser

from headrace.jetstream.credentials import NatsCredentials
from headrace.jetstream.health_probe import PROBE_TIMING, HealthProbe, ProbeTiming


class SafeTcpTransport(TcpTransport):
    """nats-py's, which passes nothing to asyncio's `writelines` once the connection is closing.

    There, CPython up to 3.13.5 registers the lost socket with the event loop again
    (python/cpython#136234), and the next socket that gets its descriptor, of any kind, never
    becomes readable or writable: a request to any server hangs. `write` drops the data, or raises
    RuntimeError under uvloop.
    """

    def __init__(self) -> None:
        """Make a transport that is not connected."""
        super().__init__()  # type: ignore[no-untyped-call]

    def writelines(self, payload: list[bytes]) -> None:
        """Write `payload`, unless the connection is lost."""
        writer = self._io_writer
        if writer is not None and writer.transport.is_closing():
            writer.write(b"".join(payload))
        else:
            super().writelines(payload)  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """Whether to use it for the next connection; nats-py replaces one that is false."""
        return True


_EOL = b"\r\n"
_MSG, _HMSG = ord("M"), ord("H")
_REPLY = 3
_WITH_REPLY = {_MSG: 5, _HMSG: 6}
"""Number of words of a control line with a reply subject."""


type Listener = Callable[[Msg], None]
"""Is called with each message of a subscription."""

type AnswerListener = Callable[[Msg | None], None]
"""Is called with the answer to a request. None: it is late."""


class FastParser(Parser):
    """Parses bytes from the socket and passes each message to its listener, or to the client.

    A message of 0.8 KB takes 1.6 µs, and nats-py's parser 2.5.
    """

    def __init__(self, nc: Any, listeners: Mapping[int, Listener] = MappingProxyType({})) -> None:  # noqa: ANN401 - nats-py's own
        """Parse for the client `nc`, whose `listeners` have a subscription of this number."""
        self._listeners = listeners
        super().__init__(nc)

    def reset(self) -> None:
        """Discard partial input, for a new connection."""
        super().reset()
        self._rest = bytearray()
        self._least = 0
        self._connection = object()

    async def parse(self, data: bytes = b"") -> None:
        """Parse the next bytes.

        Raises:
            ProtocolError: A NATS server does not send such bytes.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._least:
                return
            data, self._rest = bytes(self._rest), bytearray()
        at, least, connection = 0, 0, self._connection
        listeners, client = self._listeners, self.nc
        messages = size = 0
        try:
            while (eol := data.find(_EOL, at)) >= 0:
                kind = data[at]
                if kind not in _WITH_REPLY:
                    await super().parse(data[at : eol + 2])
                    if self._connection is not connection:
                        return  # It ended meanwhile: what follows must not reach the next one.
                    at = eol + 2
                    continue
                # Only at spaces: a subject may have other characters that Python takes for white
                # space.
                words = data[at:eol].split(b" ")
                try:
                    first, sid = eol + 2, int(words[2])
                    end = first + int(words[-1])
                    body = first + int(words[-2]) if kind == _HMSG else first
                except (ValueError, IndexError):
                    raise ProtocolError("nats: malformed MSG") from None
                if end + 2 > len(data):
                    least = end + 2 - at
                    break
                at = end + 2
                reply = words[_REPLY] if len(words) == _WITH_REPLY[kind] else b""
                receive = listeners.get(sid)
                if receive is None or sid not in client._subs:  # noqa: SLF001 - as the parser that this is
                    await client._process_msg(  # noqa: SLF001 - likewise
                        sid,
                        words[1].decode("utf-8", "replace").encode(),
                        reply.decode("utf-8", "replace").encode(),
                        data[body:end],
                        data[first:body],
                    )
                    continue
                # Here, not in a method of the client: a coroutine per message costs 1 µs. In the
                # names, what is no text becomes U+FFFD, which no name of ours has.
                messages += 1
                size += end - body
                try:
                    receive(
                        ReceivedMessage(
                            client,
                            words[1].decode("utf-8", "replace"),
                            reply.decode("utf-8", "replace"),
                            data[body:end],
                            data[first:body],
                        )
                    )
                except Exception as error:  # noqa: BLE001  # otherwise nothing more would be read
                    await client._error_cb(error)  # noqa: SLF001 - likewise
        finally:
            client.stats["in_msgs"] += messages
            client.stats["in_bytes"] += size
        self._rest, self._least = bytearray(data[at:]), least


class _DirectInput:
    """Parses bytes in the callback that delivers them.

    A message that comes alone takes 20 µs of processor time, sent and received in one process, and
    through nats-py's stream and task 22: 9 % less, the median of 20 rounds that alternated.

    If the parser has to wait for something, nothing more is read from the socket. What the
    transport has read already is parsed afterwards.
    """

    def __init__(
        self,
        parse: Callable[[bytes], Coroutine[Any, Any, None]],
        transport: asyncio.ReadTransport,
    ) -> None:
        """Pass bytes from `transport` to `parse`, one call after the other."""
        self._parse, self._transport = parse, transport
        self._loop = asyncio.get_running_loop()
        self._parsing: asyncio.Task[None] | None = None
        self._waiting = bytearray()
        self._is_over = False

    def feed(self, data: bytes) -> None:
        """Parse `data`, or keep it while earlier data is being parsed."""
        if self._is_over:
            return
        if self._parsing is not None:
            self._waiting += data
            return
        parsing = asyncio.Task(self._parse(data), loop=self._loop, eager_start=True)
        if not parsing.done():
            self._parsing = parsing
            if not self._transport.is_closing():
                self._transport.pause_reading()
            parsing.add_done_callback(self._go_on)

    def stop(self) -> None:
        """Ignore all further bytes: the connection has ended."""
        self._is_over = True
        self._waiting.clear()

    def _go_on(self, _: asyncio.Task[None]) -> None:
        self._parsing = None
        if not self._transport.is_closing():
            self._transport.resume_reading()
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self.feed(data)


_MOST_DEADLINES = 64
"""Different timeouts of requests that share timers. Others, as computed ones, have their own."""

_CONNECT = b"CONNECT "
_ACK = b"$JS.ACK."
"""Beginning of the reply subject of a stored message that a consumer delivers."""
_STATUS = Header.STATUS.value
_STATUS_LENGTH = 3
_EARLY = 1024 * 1024
"""Bytes that may have arrived while a connection was being made: fewer than this."""


class ReceivedMessage(Msg):
    """A message whose headers are parsed on first access; many readers never use them.

    To parse an entry's seven headers takes 2.4 µs, and the rest of the message 0.3.
    """

    # Of the class until they are set, which takes less time than to set them for each message.
    _sid = None
    _parsed: dict[str, str] | None = None
    position: "StreamPosition | None" = None
    """Where it is stored, if whoever has read that keeps it for the next."""

    def __init__(self, client: Client, subject: str, reply: str, data: bytes, block: bytes) -> None:
        """Create a message with the header `block`: ``NATS/1.0`` and its lines, or nothing."""
        self._client, self.subject, self.reply = client, subject, reply
        self.data, self.block = data, block

    @property
    def headers(self) -> dict[str, str] | None:  # type: ignore[override]
        """The headers in `block`. None: it has none."""
        if self._parsed is None and self.block:
            self._parsed = _headers(self.block)
        return self._parsed


def _headers(block: bytes) -> dict[str, str] | None:
    """Parse a block, including the status that a server may have put into its first line."""
    first, _, lines = block.partition(b"\r\n")
    stated = first.removeprefix(b"NATS/1.0").strip().decode("utf-8", "replace")
    found: dict[str, str] = {}
    if stated:
        status, description = stated[:_STATUS_LENGTH], stated[_STATUS_LENGTH:].strip()
        found |= {"Status": status} if status.isdigit() else {}
        found |= {"Description": description} if description else {}
    return (found | header_lines(lines)) or None


def header_lines(raw: bytes) -> dict[str, str]:
    """Parse the lines after ``NATS/1.0`` as nats-py does, at a quarter of its cost.

    An entry has seven headers, which took 7.5 of the 18 µs of receiving it.
    """
    headers: dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").split("\r\n"):
        name, separator, value = line.partition(":")
        if separator and name.isascii():
            headers[name.strip()] = value.strip()
    return headers


FROM_STREAM = b"\r\nNats-Stream: "
"""Its last place in a header block is the server's; a publisher may have set others."""

_REPUBLISHED = re.compile(
    rb"Nats-Stream: [^\r\n]+\r\n"
    rb"Nats-Subject: ([^\r\n]+)\r\n"
    rb"Nats-Sequence: ([0-9]{1,19})\r\n"
    rb"Nats-Time-Stamp: ([^\r\n]+)\r\n"
    rb"(?:Nats-Num-Pending: [0-9]{1,19}\r\n)?"
    rb"Nats-Last-Sequence: ([0-9]{1,19})\r\n\r\n"
)
"""The last headers of a republished message, or of one in a batch of direct gets, as nats-server
adds them."""


class StreamPosition(NamedTuple):
    """Where a message is stored that was republished, or is in a batch of direct gets."""

    subject: str
    sequence: int
    time: str
    """When it was stored, RFC 3339."""
    previous: int
    """The sequence before it on its subject, or in its batch; 0: it is the first."""

    @classmethod
    def read(cls, block: bytes) -> "StreamPosition | None":
        """Read the end of a header block, at a tenth of the cost of parsing all of it.

        None: it does not end as nats-server ends those of such messages.
        """
        at = block.rfind(FROM_STREAM) + len(b"\r\n")
        match = _REPUBLISHED.fullmatch(block, at)
        if match is None:
            return None
        subject, sequence, time, previous = match.groups()
        # Its own constructor, which is a function in Python, takes three times as long.
        return tuple.__new__(
            cls, (subject.decode("utf-8", "replace"), int(sequence), time.decode(), int(previous))
        )


class StoredHeaders(dict[str, str]):
    """The headers of a stored message that has one named ``Status``, as its publisher chose it.

    nats-py's pulls would take the message for a status of the server: drop it, or fail. They ask
    for the header by this method.
    """

    @override
    def get(self, key: str, default: Any = None) -> Any:
        """Return a header; nats-py, which asks with a member of `Header`, is told of no status."""
        return default if key is Header.STATUS else super().get(key, default)


class _Deadlines:
    """Answers that are due after the same time; one timer serves all of them.

    A timer of its own would be a tenth of a small request's cost.
    """

    def __init__(
        self, timeout: float, open_: Mapping[str, object], give_up: Callable[[str], object]
    ) -> None:
        """Call `give_up` for serials that are still in `open_` after `timeout` seconds."""
        self._timeout, self._open, self._give_up = timeout, open_, give_up
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, str]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, serial: str) -> None:
        """Add the request `serial`."""
        waiting, now = self._waiting, self._loop.time()
        while waiting and waiting[0][1] not in self._open:
            # What has been answered is kept no longer than those before it.
            waiting.popleft()
        waiting.append((now + self._timeout, serial))
        if self._timer is None:
            self._timer = self._loop.call_at(waiting[0][0], self._look)

    def _look(self) -> None:
        waiting, now = self._waiting, self._loop.time()
        while waiting and (waiting[0][0] <= now or waiting[0][1] not in self._open):
            self._give_up(waiting.popleft()[1])
        self._timer = self._loop.call_at(waiting[0][0], self._look) if waiting else None


class Listening(Subscription):
    """A subscription whose messages are passed on as they are read from the socket.

    It has none of the parts with which nats-py keeps messages until they are processed: a
    subscription takes 0.5 KB instead of 5.4, and 1.7 µs instead of 7. Each stream of a task's
    events subscribes.
    """

    # What nats-py's client uses of its subscriptions when it reconnects, drains and closes. Of the
    # class, because each of thousands of subscriptions would hold the same.
    _max_msgs = _received = 0
    _closed = False
    _wait_for_msgs_task = _message_iterator = None
    _pending_queue: Any = None
    _pending_next_msgs_calls: Any = None

    def __init__(self, client: "NatsClient", sid: int, subject: str, queue: str) -> None:
        """Remember what to repeat after a reconnect."""
        self._conn, self._id, self._subject, self._queue = client, sid, subject, queue

    async def unsubscribe(self, limit: int = 0) -> None:  # noqa: ARG002 - nats-py's
        """End the subscription."""
        self.end()

    def end(self) -> None:
        """End the subscription. Nothing happens if it ended before."""
        if not self._closed:
            self._closed = True
            self._conn.stop_listening(self._id)


_CONNECTION_LASTS = (
    "permissions violation",
    "invalid subject",
    "invalid publish subject",
    "maximum subscriptions exceeded",
)
"""Errors of nats-server that concern one message or subscription: it keeps the connection."""

_API = "$JS.API."
_KV = "$KV."


def in_domain(domain: str, subject: str) -> str:
    """Return the subject that leads to the JetStream of `domain` from any server.

    Between servers with different domains NATS passes neither JetStream's own subjects nor those of
    key-value buckets. Others, also those of files, are returned unchanged, as are all if `domain`
    is empty.
    """
    if not domain or not subject.startswith("$"):
        return subject
    if subject.startswith(_API):
        return f"$JS.{domain}.API.{subject.removeprefix(_API)}"
    return f"$JS.{domain}.API.{subject}" if subject.startswith(_KV) else subject


class NatsClient(Client):
    """nats-py's client with changes to reconnects, dispatch, flushing and credentials.

    It also reconnects from a server that froze or whose machine disappeared. nats-py first waits
    until the old connection is closed, that is until the old server has accepted all buffered data:
    for ever, or for as long as TCP tries. It would also leave a connection open on which the server
    sends nothing at all. A frozen server is left within seconds if another one is known.

    It parses bytes in the socket's callback. nats-py passes them through a stream to a task, which
    takes two iterations of the loop per read.

    It reads subjects that are not UTF-8, which nats-server accepts from anybody who may publish
    there. nats-py would connect again for each, and get it again.

    It passes messages to listeners, and answers to requesters, as they are read from the socket.
    nats-py has a task with a queue per subscription: 15 µs more per message, and a loop iteration.

    It sends a ping after the data that was sent before it, so that after `flush` the server has it
    all. In nats-py the ping can overtake the data.

    It sends its credentials to every server, including servers that it discovers, and reads them
    again for each. If the server ends the connection, because of its credentials or of anything
    else, it reconnects with the current ones. nats-py would close the connection permanently.

    It refuses a message that with its headers exceeds the server's maximum. nats-py counts the
    payload only, and the server would end the connection.
    """

    def __init__(
        self,
        credentials: NatsCredentials | None = None,
        transport: Transport | None = None,
        domain: str = "",
        timing: ProbeTiming = PROBE_TIMING,
    ) -> None:
        """Create a client with `credentials`; `connect` connects it, over TCP or `transport`.

        It uses the JetStream of `domain`; empty: that of its server. Whether that answers is probed
        as `timing` says.
        """
        super().__init__()
        self._domain = domain
        self._transport = transport
        self._credentials = credentials
        self._listeners: dict[int, Listener] = {}
        self._ps = FastParser(self, self._listeners)
        self._header_names: set[str] = set()
        self._answers: dict[str, asyncio.Future[Msg] | AnswerListener] = {}
        self._series: dict[str, Listener] = {}
        """Listeners to all answers of a request, by its serial."""
        self._serials = itertools.count(1)
        self._answers_inbox = ""
        self._deadlines: dict[float, _Deadlines] = {}
        self._has_mirrors = False
        self.health = HealthProbe(self._ping, lambda: self.has_others, timing)

    @property
    def server_version(self) -> str:
        """The version that the server states; empty: it states none, or is not connected."""
        server = self._current_server
        return "" if server is None else server.server_version or ""

    @property
    def has_only_copies(self) -> bool:
        """Whether the server has the only copy of each stream, so that any answer is the leader's.

        Then it is in no cluster, and no leaf node, which names a cluster too. With a domain, the
        streams may be another server's.
        """
        info = self._server_info
        has_streams = bool(info.get("jetstream")) and not self._domain
        is_alone = not info.get("cluster") and not self._has_mirrors
        return has_streams and is_alone and self.is_connected

    def note_mirror(self) -> None:
        """Take note that a mirror of a stream answers direct gets, which may be behind it."""
        self._has_mirrors = True

    @property
    def has_others(self) -> bool:
        """Whether another server is known than the one that is connected."""
        return len(self._server_pool) > 1

    async def listen(
        self, subject: str, receive: Callable[[Msg], None], queue: str = ""
    ) -> "Listening":
        """Call `receive` for every message on `subject`, in the loop that reads the socket.

        Each message goes to one of the listeners in the same `queue`.

        Args:
            subject: A valid subject or pattern: it is not checked.
            receive: The listener.
            queue: Name of the group of listeners; empty for none.
        """
        if self.is_closed:
            raise ConnectionClosedError
        if self.is_draining:
            raise ConnectionDrainingError
        self._sid = sid = self._sid + 1
        listening = self._subs[sid] = Listening(self, sid, subject, queue)
        self._listeners[sid] = receive
        command = b"SUB %b %b %d\r\n" % (subject.encode(), queue.encode(), sid)
        if not self.send_now(command):
            await self._send_command(command)
            await self._flush_pending()
        return listening

    def stop_listening(self, sid: int) -> None:
        """End a subscription of `listen`."""
        self._remove_sub(sid)
        if self.is_connected:  # Otherwise a reconnect does not repeat it.
            self.send_now(b"UNSUB %d\r\n" % sid, is_limited=False)

    def send_now(self, command: bytes, *, is_limited: bool = True) -> bool:
        """Send a protocol line or message without a coroutine; return whether that is possible.

        It is not while the limit of what waits to be written is reached, if `is_limited`.
        """
        queue = self._flush_queue
        if queue is None or not self.is_connected:
            return False
        size = self._pending_data_size + len(command)
        if is_limited and 0 < self._max_pending_size < size:
            return False
        self._pending.append(command)
        self._pending_data_size = size
        if queue.empty():
            queue.put_nowait(asyncio.get_running_loop().create_future())
        return True

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None and s.uri.scheme not in {"ws", "wss"}:
            self._transport = SafeTcpTransport()
        await super()._connect_to_server(s)

    async def _read_loop(self) -> None:
        transport: Any = self._transport if isinstance(self._transport, TcpTransport) else None
        if transport is None:
            await super()._read_loop()
            return
        reader = transport._io_reader  # noqa: SLF001 - there is no other way
        direct = _DirectInput(self._parse, transport._io_writer.transport)  # noqa: SLF001 - likewise
        # Returns at once what came with the handshake. If the connection is broken already,
        # nats-py's loop notices.
        has_early = reader._buffer and reader.exception() is None  # noqa: SLF001 - likewise
        early = await reader.read(_EARLY) if has_early else b""
        reader.feed_data = direct.feed
        try:
            direct.feed(early)
            await super()._read_loop()  # From now on it reads nothing but the end.
        finally:
            direct.stop()

    async def _parse(self, data: bytes) -> None:
        if self.is_closed or self.is_reconnecting:
            return  # What follows an error may be the rest of a message.
        try:
            await self._ps.parse(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, this connection is useless
            await self._process_op_err(error)

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        if headers and _STATUS in headers and reply.startswith(_ACK):
            headers = StoredHeaders(headers)
        message: Msg = super()._build_message(sid, subject, reply, data, headers)
        return message

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._listeners.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    async def _send_publish(
        self,
        subject: str,
        reply: str,
        payload: bytes,
        payload_size: int,
        headers: dict[str, Any] | None,
    ) -> None:
        """Send headers at a quarter of the 13 µs that nats-py's checks take.

        nats-py still checks each header name once, and every value with more than one line.
        """
        if self._domain:
            subject = in_domain(self._domain, subject)
        command = self._command(subject, reply, payload, headers) if headers is not None else None
        if command is None:
            if headers is not None and _most_bytes(headers) + payload_size > self._max_payload:
                raise MaxPayloadError
            await super()._send_publish(subject, reply, payload, payload_size, headers)
            self._header_names.update(headers or ())
            return
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += payload_size
        await self._send_command(command)
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def _flush_pending(
        self,
        force_flush: bool = False,  # noqa: FBT001, FBT002  # nats-py's own
    ) -> Any:  # noqa: ANN401  # nats-py's own
        """Report a transport that uvloop has closed as a lost connection.

        uvloop raises RuntimeError for it until the reader has noticed.
        """
        try:
            return await super()._flush_pending(force_flush)
        except RuntimeError as error:
            raise StaleConnectionError from error

    def _command(
        self, subject: str, reply: str, payload: bytes, headers: dict[str, Any]
    ) -> bytes | None:
        """Return the bytes of a message; None: nats-py must check its headers.

        Raises:
            MaxPayloadError: With its headers it is too large.
        """
        if not headers:
            return b"PUB %b %b %d\r\n%b\r\n" % (
                subject.encode(),
                reply.encode(),
                len(payload),
                payload,
            )
        block = self.header_block(headers)
        if block is None:
            return None
        if len(block) + len(payload) > self._max_payload:
            raise MaxPayloadError
        return _with_headers(subject, reply, block, payload)

    def header_block(self, headers: dict[str, Any]) -> bytes | None:
        """Return the bytes of `headers` in a message; None: nats-py must check them."""
        if not self._header_names.issuperset(headers):
            return None
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if not lines.count("\n") == lines.count("\r") == len(headers):
            return None
        return f"NATS/1.0\r\n{lines}\r\n".encode()

    def ask(
        self, subject: str, payload: bytes, headers: dict[str, Any], timeout: float
    ) -> asyncio.Future[Msg] | None:
        """Send a request now, without a coroutine, and return its answer to come.

        Of a request's processor time, this saves a third. An answer that is cancelled or late is
        dropped. A "no responders" status counts as a reply.

        Args:
            subject: A valid subject: it is not checked.
            payload: The request.
            headers: Its headers.
            timeout: Seconds after which the answer is `nats.errors.TimeoutError`. The first
                different ones of a connection have a timer each.

        Returns:
            None: `request` has to send it, which may have to wait, to check it or to refuse it.

        Raises:
            MaxPayloadError: With its headers it is too large.
        """
        deadlines = self._deadlines_of(timeout)
        if deadlines is None or len(payload) > self._max_payload:
            return None
        if self._domain:
            subject = in_domain(self._domain, subject)
        serial = str(next(self._serials))
        command = self._command(subject, f"{self._answers_inbox}.{serial}", payload, headers)
        if command is None or not self._send_request(command, len(payload)):
            return None
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._answers[serial] = answer
        deadlines.add(serial)
        return answer

    def ask_directly(
        self, subject: str, payload: bytes, block: bytes, timeout: float, receive: AnswerListener
    ) -> str:
        """Send a request now, and call `receive` with its answer as that is read from the socket.

        `receive` must not raise.

        Args:
            subject: A valid subject, and none of JetStream's own: it is not checked.
            payload: The request.
            block: Its headers, made from what `header_block` has returned.
            timeout: As for `ask`.
            receive: Is called once, unless the answer is given up with `forget`.

        Returns:
            The request's serial, for `forget`. Empty: `ask` or `request` has to send it.
        """
        deadlines = self._deadlines_of(timeout)
        if deadlines is None or len(block) + len(payload) > self._max_payload:
            return ""
        serial = str(next(self._serials))
        command = _with_headers(subject, f"{self._answers_inbox}.{serial}", block, payload)
        if not self._send_request(command, len(payload)):
            return ""
        self._answers[serial] = receive
        deadlines.add(serial)
        return serial

    def _deadlines_of(self, timeout: float) -> _Deadlines | None:
        """Return what finds late answers. None: a request can't be sent now, or needs a timer."""
        if not self._answers_inbox or self.is_draining_pubs:
            return None
        deadlines = self._deadlines.get(timeout)
        if deadlines is None and len(self._deadlines) < _MOST_DEADLINES:
            deadlines = _Deadlines(timeout, self._answers, self._give_up)
            self._deadlines[timeout] = deadlines
        return deadlines

    def _send_request(self, command: bytes, size: int) -> bool:
        if not self.send_now(command):
            return False
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += size
        return True

    async def ask_for_series(self, subject: str, payload: bytes, receive: Listener) -> str:
        """Send a request with several answers; return its serial, for `end_series`.

        `receive` is called with each answer, also with a "no responders" status. A subscription of
        its own per request would cost client and server as much as three messages.
        """
        if not self._answers_inbox:
            await self._listen_for_answers()
        serial = str(next(self._serials))
        self._series[serial] = receive
        reply = f"{self._answers_inbox}.{serial}"
        if not self.is_draining_pubs and len(payload) <= self._max_payload:
            command = self._command(in_domain(self._domain, subject), reply, payload, {})
            if command is not None and self.send_now(command):
                return serial
        try:
            await self.publish(subject, payload, reply)
        except BaseException:
            self.end_series(serial)
            raise
        return serial

    def end_series(self, serial: str) -> None:
        """Drop further answers to the request."""
        self._series.pop(serial, None)

    def forget(self, serial: str) -> None:
        """Drop the answer to a request, whether it comes or is late."""
        self._answers.pop(serial, None)

    def _give_up(self, serial: str) -> None:
        answer = self._answers.pop(serial, None)
        if isinstance(answer, asyncio.Future):
            _give_up(answer)
        elif answer is not None:
            asyncio.get_running_loop().call_soon(answer, None)

    async def _request_new_style(
        self,
        subject: str,
        payload: bytes,
        timeout: float = 1,
        headers: Any = None,  # noqa: ANN401  # nats-py's own
    ) -> Msg:
        if self.is_draining_pubs:
            raise ConnectionDrainingError
        if not self._answers_inbox:
            await self._listen_for_answers()
        loop, serial = asyncio.get_running_loop(), str(next(self._serials))
        answer: asyncio.Future[Msg] = loop.create_future()
        self._answers[serial] = answer
        overdue = loop.call_later(timeout, _give_up, answer)
        try:
            await self.publish(subject, payload, f"{self._answers_inbox}.{serial}", headers)
            return await answer
        finally:
            overdue.cancel()
            self.forget(serial)

    async def _listen_for_answers(self) -> None:
        self._answers_inbox = self.new_inbox()
        try:
            await self.listen(f"{self._answers_inbox}.*", self._on_answer)
        except BaseException:
            self._answers_inbox = ""
            raise

    def _on_answer(self, msg: Msg) -> None:
        serial = msg.subject.rpartition(".")[2]
        answer = self._answers.pop(serial, None)
        if answer is None:
            receive = self._series.get(serial)
            if receive is not None:
                receive(msg)
        elif not isinstance(answer, asyncio.Future):
            answer(msg)
        elif not answer.done():
            answer.set_result(msg)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return header_lines(raw)

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    def _ping(self, answer: asyncio.Future[Any]) -> bool:
        """Send a ping behind all else, without waiting; return whether that is possible."""
        is_sent = self.send_now(PING_PROTO, is_limited=False)
        if is_sent:
            self._pongs.append(answer)
        return is_sent

    async def _ping_interval(self) -> None:
        await self.health.run()
        await self._process_op_err(StaleConnectionError())

    async def _process_pong(self) -> None:
        # nats-py would fail on a flush that was given up, and stop reading.
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _attempt_reconnect(self) -> None:
        self._abort()
        try:
            await super()._attempt_reconnect()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody tries again
            self._err, self._reconnection_task = error, None  # It would be canceled: this one.
            await self._close(Client.CLOSED)

    async def _select_next_server(self) -> None:
        # nats-py chooses at random, perhaps the server that it leaves. If that is frozen, the
        # attempt takes its whole timeout.
        pool = self._server_pool
        if pool and pool[0] is self._current_server:
            pool.append(pool.pop(0))
        await super()._select_next_server()

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException:
            self._abort()
            raise

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The TLS context."""
        return self._credentials.tls() if self._credentials else ssl.create_default_context()

    def _connect_command(self) -> bytes:
        command: bytes = super()._connect_command()
        if self._credentials is None:
            return command
        if self._credentials.need_tls and not self._is_encrypted():
            raise nats.errors.Error(
                "nats: the settings require TLS, but the server does not offer it"
            )
        login = self._credentials.login(self._server_info.get("nonce", ""))
        options = json.loads(command.removeprefix(_CONNECT))
        return b"%b%b\r\n" % (_CONNECT, json.dumps(options | login).encode())

    def _is_encrypted(self) -> bool:
        transport = self._transport
        if not isinstance(transport, TcpTransport):
            return self._current_server is not None and self._current_server.uri.scheme == "wss"
        writer = transport._io_writer  # noqa: SLF001 - there is no other way
        return writer is not None and writer.get_extra_info("ssl_object") is not None

    async def _process_err(self, err_msg: str) -> None:
        # For nats-py nearly every error is the connection's end, permanently.
        if self.is_connecting:
            await super()._process_err(err_msg)
            return
        error = nats.errors.Error(f"nats: {err_msg}")
        await self._error_cb(error)
        if not err_msg.strip("'").startswith(_CONNECTION_LASTS):
            await self._process_op_err(error)

    def _abort(self) -> None:
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:  # noqa: SLF001 - there is no other way
            transport._io_writer.transport.abort()  # noqa: SLF001 - likewise


def _with_headers(subject: str, reply: str, block: bytes, payload: bytes) -> bytes:
    size = len(block)
    line = f"HPUB {subject} {reply} {size} {size + len(payload)}\r\n"
    return b"%b%b%b\r\n" % (line.encode(), block, payload)


def _most_bytes(headers: Mapping[str, Any]) -> int:
    """Return how many bytes nats-py may make of headers."""
    return sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items()) + 12


def _give_up(answer: asyncio.Future[Msg]) -> None:
    if not answer.done():
        answer.set_exception(NatsTimeout())
