"""The client parses what a server sends as it arrives, in order, from the handshake to the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlparse

import pytest
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport
from nats.errors import StaleConnectionError

from headrace.jetstream.client import NatsClient, SafeTcpTransport, _DirectInput
from tests.support import lost_connections
from tests.support.waiting import TIMEOUT, soon

_INFO = b'INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":1048576}\r\n'


class ScriptedServer:
    """Greets as a NATS server; then the test says what it sends."""

    def __init__(self) -> None:
        self.with_pong = b""
        """Sent in one piece with the end of the handshake."""
        self.connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_INFO)
        while (line := await reader.readline()) != b"PING\r\n":
            assert line.startswith(b"CONNECT")
        writer.write(b"PONG\r\n" + self.with_pong)
        self.connections.put_nowait(writer)
        while line := await reader.readline():
            self.received.put_nowait(line)
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()


@pytest.fixture
def scripted() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
async def client(scripted: ScriptedServer) -> AsyncIterator[NatsClient]:
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = NatsClient()
    await client.connect(f"nats://127.0.0.1:{port}", reconnect_time_wait=0)
    yield client
    await client.close()
    server.close()


class SlowParser:
    """Parses when it is told to."""

    def __init__(self) -> None:
        self.parsed: list[bytes] = []
        self.free = asyncio.Event()

    async def parse(self, data: bytes) -> None:
        if data.startswith(b"slow"):
            await self.free.wait()
        self.parsed.append(data)


class ReadingTransport(asyncio.ReadTransport):
    """Knows whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self._is_reading = True

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True


async def test_bytes_are_parsed_within_the_callback() -> None:
    parser = SlowParser()
    _DirectInput(parser.parse, ReadingTransport()).feed(b"one")
    assert parser.parsed == [b"one"]


async def test_bytes_that_arrive_while_the_parser_waits_are_parsed_afterwards() -> None:
    parser = SlowParser()
    direct = _DirectInput(parser.parse, ReadingTransport())
    for data in (b"slow", b"two", b"three"):
        direct.feed(data)
    assert parser.parsed == []
    parser.free.set()
    await asyncio.sleep(0.01)
    direct.feed(b"four")
    assert parser.parsed == [b"slow", b"twothree", b"four"]


async def test_nothing_more_is_read_while_the_parser_waits() -> None:
    parser, transport = SlowParser(), ReadingTransport()
    direct = _DirectInput(parser.parse, transport)
    direct.feed(b"slow")
    direct.feed(b"slow too")
    assert not transport.is_reading()
    parser.free.set()
    await asyncio.sleep(0.01)
    assert parser.parsed == [b"slow", b"slow too"]
    assert transport.is_reading()


async def test_bytes_after_the_end_of_a_connection_are_ignored() -> None:
    parser = SlowParser()
    direct = _DirectInput(parser.parse, ReadingTransport())
    direct.feed(b"slow")
    direct.feed(b"two")
    direct.stop()
    direct.feed(b"three")
    parser.free.set()
    await asyncio.sleep(0.01)
    assert parser.parsed == [b"slow"]


async def test_no_message_passes_through_the_stream(
    scripted: ScriptedServer, client: NatsClient
) -> None:
    receivers: asyncio.Queue[asyncio.Task[None] | None] = asyncio.Queue()
    await client.listen("news", lambda _: receivers.put_nowait(asyncio.current_task()))
    writer = await scripted.connections.get()
    writer.write(b"MSG news 1 2\r\nhi\r\n")
    async with asyncio.timeout(TIMEOUT):
        receiver = await receivers.get()
    assert receiver is not client._reading_task


async def test_what_comes_with_the_handshake_is_parsed() -> None:
    scripted = ScriptedServer()
    scripted.with_pong = b"PING\r\n"
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    client = NatsClient()
    await client.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with asyncio.timeout(TIMEOUT):
        assert await scripted.received.get() == b"PONG\r\n"
    await client.close()
    server.close()


@pytest.mark.parametrize("end", [b"MSG nonsense\r\n", b""])
async def test_a_server_that_sends_nonsense_or_hangs_up_is_connected_again(
    scripted: ScriptedServer, client: NatsClient, end: bytes
) -> None:
    writer = await scripted.connections.get()
    writer.write(end)
    if not end:
        writer.close()
    async with asyncio.timeout(TIMEOUT):
        await scripted.connections.get()
    await soon(lambda: client.is_connected, "the client is connected again")
    assert client.stats["reconnects"] == 1


async def test_nothing_after_nonsense_is_taken_for_a_message(
    scripted: ScriptedServer, client: NatsClient
) -> None:
    received: list[bytes] = []
    await client.listen("news", lambda msg: received.append(msg.data))
    await scripted.connections.get()
    transport = client._transport
    assert isinstance(transport, TcpTransport)
    assert transport._io_reader is not None
    for data in (b"MSG nonsense\r\n", b"MSG news 1 2\r\nhi\r\n"):
        transport._io_reader.feed_data(data)
    async with asyncio.timeout(TIMEOUT):
        await scripted.connections.get()
    assert received == []


async def test_a_subject_that_is_no_text_is_passed_on_and_ends_no_connection(
    scripted: ScriptedServer, client: NatsClient
) -> None:
    received: list[tuple[str, str, bytes]] = []

    def note(msg: Msg) -> None:
        received.append((msg.subject, msg.reply, msg.data))

    async def noted(msg: Msg) -> None:
        note(msg)

    await client.listen("news.*", note)
    await client.subscribe("news.*", cb=noted)
    writer = await scripted.connections.get()
    for sid in (1, 2):
        writer.write(
            b"MSG news.\xff\xc3 %d re.\xfe 2\r\nhi\r\nMSG news.b %d 2\r\nho\r\n" % (sid, sid)
        )
    await soon(lambda: len(received) == 4, "all is heard")
    assert received[::2] == 2 * [("news.\ufffd\ufffd", "re.\ufffd", b"hi")]
    assert received[1::2] == 2 * [("news.b", "", b"ho")]
    assert client.stats["reconnects"] == 0


class EarlyBrokenClient(NatsClient):
    """Its first connection breaks right after the handshake, with input that nobody has read."""

    async def _read_loop(self) -> None:
        assert isinstance(self._transport, TcpTransport)
        reader = self._transport._io_reader
        assert reader is not None
        if not self.stats["reconnects"]:
            reader.feed_data(b"PING\r\n")
            reader.set_exception(ConnectionResetError())
        await super()._read_loop()


async def test_a_connection_that_breaks_right_after_the_handshake_is_replaced(
    scripted: ScriptedServer,
) -> None:
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = EarlyBrokenClient()
    await client.connect(f"nats://127.0.0.1:{port}", reconnect_time_wait=0)
    async with asyncio.timeout(TIMEOUT):
        await scripted.connections.get()
        await scripted.connections.get()
    await soon(lambda: client.is_connected, "the client is connected again")
    assert client.stats["reconnects"] == 1
    await client.close()
    server.close()


async def test_a_transport_that_uvloop_has_closed_is_a_lost_connection(
    client: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_: list[bytes]) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")

    monkeypatch.setattr(client._transport, "writelines", write)
    await client.publish("a", b"b")  # The task that writes it ends.
    assert client._flusher_task is not None
    await asyncio.wait([client._flusher_task])
    with pytest.raises(StaleConnectionError):
        await client.publish("a", b"b")
    monkeypatch.undo()


async def test_a_server_is_informed_of_the_end_of_a_subscription_despite_a_full_write_buffer(
    client: NatsClient, scripted: ScriptedServer
) -> None:
    listening = await client.listen("a", lambda _: None)
    client._max_pending_size = 1
    listening.end()
    async with asyncio.timeout(TIMEOUT):
        received = [await scripted.received.get() for _ in range(2)]
    assert received == [b"SUB a  1\r\n", b"UNSUB 1\r\n"]


async def test_what_is_flushed_to_a_lost_connection_blocks_no_other_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_connections.TRANSPORT, "writelines", lost_connections.WRITELINES)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = SafeTcpTransport()
        await transport.connect(urlparse(f"nats://127.0.0.1:{port}"), 1024, 5)
        assert transport._io_writer is not None
        transport._io_writer.transport.abort()
        transport.writelines([b"PING\r\n"])
        await asyncio.sleep(0)  # The socket is closed, and its descriptor free.
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()
