"""Requests that are never whole, or too large: bounded in bytes and in time, at no other's cost."""

import asyncio
import json
import socket as stdlib_socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from headrace_gateway.server import http_protocol, websocket_protocol
from headrace_gateway.timing import GatewayTiming
from tests.support.clients.bindings import message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

SHORT = 1.5
"""Seconds."""

TIMEOUT = 60
SEND = "POST /v1/agents/{agent}/message:{how} HTTP/1.1\r\nHost: localhost\r\n"


@dataclass
class Wire:
    """A connection of bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, text: str) -> None:
        self.writer.write(text.encode())

    async def until(self, mark: str) -> str:
        """Return what comes, up to `mark`."""
        async with asyncio.timeout(TIMEOUT):
            return (await self.reader.readuntil(mark.encode())).decode()

    async def rest(self) -> str:
        """Return what comes until the gateway hangs up."""
        async with asyncio.timeout(TIMEOUT):
            return (await self.reader.read()).decode()

    async def refusal(self) -> tuple[int, str]:
        """Return status and message of the last answer, behind which the gateway hangs up."""
        head, _, body = (await self.rest()).partition("\r\n\r\n")
        error = json.loads(body)["error"]
        assert head.startswith(f"HTTP/1.1 {error['code']} ")
        return error["code"], error["message"]


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    return GatewayTiming(silence=SHORT, body=4 * SHORT)


@pytest_asyncio.fixture(loop_scope="module")
async def wire(gateway: str, fleet: ScriptedFleet) -> AsyncIterator[Wire]:
    assert fleet.working
    place = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    yield Wire(reader, writer)
    writer.close()


def asking(agent: str = "assistant", how: str = "send", **headers: str) -> tuple[str, str]:
    """Return head and body of a message to an agent."""
    body = json.dumps(message("hello"))
    named = {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return SEND.format(agent=agent, how=how) + lines + "\r\n", body


@pytest.mark.parametrize("half", ["P", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: loc"])
async def test_an_incomplete_head_is_not_awaited_without_limit(wire: Wire, half: str) -> None:
    wire.send(half)
    assert await wire.refusal() == (408, "the request was not received within the time limit")


async def test_a_connection_without_requests_is_closed_silently(wire: Wire) -> None:
    assert await wire.rest() == ""


async def test_half_a_body_is_not_waited_for_for_ever(wire: Wire, fleet: ScriptedFleet) -> None:
    head, body = asking()
    wire.send(head + body[:10])
    assert (await wire.refusal())[0] == 408
    assert fleet.runs == []


async def test_half_a_further_request_is_not_either(wire: Wire) -> None:
    wire.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert "200 OK" in await wire.until('{"status":"ok"}')
    wire.send("GET /healthz HT")
    assert (await wire.refusal())[0] == 408


async def test_a_body_that_comes_slowly_is_waited_for(wire: Wire) -> None:
    head, body = asking(**{"Content-Length": "40000"})
    body += " " * (40_000 - len(body))
    wire.send(head + body[:8_000])
    # All of it takes twice as long as silence may.
    for at in range(8_000, 40_000, 4_000):
        await asyncio.sleep(SHORT / 4)
        wire.send(body[at : at + 4_000])
    assert "200 OK" in await wire.until("\r\n\r\n")


async def test_a_body_that_is_nearly_whole_may_not_be_silent_for_ever(
    wire: Wire, fleet: ScriptedFleet
) -> None:
    head, body = asking(**{"Content-Length": "1000000"})
    wire.send(head + body + " " * (999_000 - len(body)))
    assert (await wire.refusal())[0] == 408
    assert fleet.runs == []


async def test_a_body_that_comes_byte_by_byte_is_not_waited_for_for_ever(
    wire: Wire, fleet: ScriptedFleet
) -> None:
    head, body = asking(**{"Content-Length": "1000000"})
    wire.send(head + body)

    async def trickle() -> None:
        while not wire.writer.is_closing():
            wire.send(" ")
            await asyncio.sleep(SHORT / 10)

    trickling = asyncio.create_task(trickle())
    assert (await wire.refusal())[0] == 408
    trickling.cancel()
    assert fleet.runs == []


def chunked(agent: str = "assistant") -> str:
    """Return a message in one chunk, behind which trailers may come."""
    body = json.dumps(message("hello"))
    lines = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    return SEND.format(agent=agent, how="send") + lines + f"{len(body):x}\r\n{body}\r\n0\r\n"


async def test_trailers_are_dropped(wire: Wire, fleet: ScriptedFleet) -> None:
    wire.send(chunked() + "A2A-Version: 9.9\r\nX-Trailer: x\r\n\r\n")
    assert "200 OK" in await wire.until("\r\n\r\n")
    assert len(fleet.runs) == 1


@pytest.mark.parametrize("trailer", ["X: " + "y" * 1000 + "\r\n", "X: " + "y" * 10_000])
async def test_trailers_without_an_end_are_refused(wire: Wire, trailer: str) -> None:
    wire.send(chunked())
    with suppress(ConnectionError):  # The gateway does not wait for all of it.
        for _ in range(3_000):
            wire.send(trailer)
            await wire.writer.drain()
    with suppress(ConnectionError):
        assert (await wire.refusal())[0] == 431
    assert wire.writer.is_closing() or wire.reader.at_eof()


async def test_a_body_in_too_many_chunks_is_refused(wire: Wire, fleet: ScriptedFleet) -> None:
    last = "0\r\n"
    begun = chunked().removesuffix(last)
    wire.send(begun + "1\r\n \r\n" * http_protocol.MOST_CHUNKS + last + "\r\n")
    assert await wire.refusal() == (431, "the body has more than 16384 chunks")
    assert fleet.runs == []


async def test_a_body_that_is_not_read_may_not_come_in_too_many_chunks_either(wire: Wire) -> None:
    lines = "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire.send(f"POST /healthz HTTP/1.1\r\n{lines}")
    assert "405 Method Not Allowed" in await wire.until("\r\n\r\n")
    wire.send("1\r\n \r\n" * (http_protocol.MOST_CHUNKS + 1))
    with suppress(ConnectionResetError):
        await wire.rest()
    assert wire.reader.at_eof() or wire.reader.exception() is not None


async def test_a_stream_goes_on_beside_half_a_further_request(
    wire: Wire, fleet: ScriptedFleet
) -> None:
    wire.send("".join(asking("patient", "stream")) + "GET /healthz HT")
    assert "200 OK" in await wire.until("\r\n\r\n")
    await asyncio.sleep(3 * SHORT)
    [run] = fleet.runs
    wire.send("TP/1.1\r\nHost: localhost\r\n\r\n")
    run.go_on.set()
    assert '{"status":"ok"}' in await wire.until('{"status":"ok"}')


@pytest.mark.parametrize(
    "headers",
    [{"X-Large": "x" * http_protocol.HEAD_BYTES}, {f"X-{n}": "x" * 1000 for n in range(70)}],
    ids=["one header", "many headers"],
)
async def test_a_large_head_is_refused(
    wire: Wire, fleet: ScriptedFleet, headers: dict[str, str]
) -> None:
    wire.send("".join(asking(**headers)))
    assert await wire.refusal() == (431, "the request's head exceeds the limit of 65536 bytes")
    assert fleet.runs == []


async def test_a_head_of_many_short_headers_is_refused(wire: Wire) -> None:
    many = "a:b\r\n" * (http_protocol.MOST_HEADERS + 1)
    wire.send(f"GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")
    status, text = await wire.refusal()
    assert (status, "headers" in text) == (431, True)


@pytest.mark.parametrize(
    "hosts", ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nhost: other\r\n"]
)
@pytest.mark.parametrize("upgrade", ["", "Connection: Upgrade\r\nUpgrade: websocket\r\n"])
async def test_a_head_without_one_host_is_refused(wire: Wire, hosts: str, upgrade: str) -> None:
    wire.send(f"GET /healthz HTTP/1.1\r\n{hosts}{upgrade}\r\n")
    assert await wire.refusal() == (400, "a request has one header Host (RFC 9112, section 3.2)")


@pytest.mark.parametrize("upgrade", ["", "Connection: Upgrade\r\nUpgrade: websocket\r\n"])
@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_a_head_with_two_credentials_of_a_kind_is_refused(
    wire: Wire, name: str, upgrade: str
) -> None:
    two = f"{name}: one\r\n{name.lower()}: two\r\n"
    wire.send(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{two}{upgrade}\r\n")
    assert await wire.refusal() == (
        400,
        f"{name.lower()} must be sent at most once (RFC 9110, section 5.3)",
    )


async def test_only_the_rule_on_hosts_of_the_gateway_holds_for_http_1_0(wire: Wire) -> None:
    wire.send("GET /healthz HTTP/1.0\r\n\r\n")
    assert await wire.refusal() == (
        403,
        "'' is not a host of this gateway; add it to HEADRACE_ALLOWED_HOSTS",
    )


@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
async def test_a_target_with_another_host_is_refused_like_that_host(
    wire: Wire, scheme: str
) -> None:
    target = f"{scheme}://other.example:80/healthz"
    wire.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert await wire.refusal() == (
        403,
        "'other.example:80' is not a host of this gateway; add it to HEADRACE_ALLOWED_HOSTS",
    )


async def test_a_host_is_that_of_the_target_if_it_has_one(wire: Wire) -> None:
    wire.send("GET http://localhost/healthz HTTP/1.1\r\nHost: other.example\r\n\r\n")
    assert "200 OK" in await wire.until('{"status":"ok"}')


async def test_a_head_without_an_end_is_refused_when_it_is_too_large(wire: Wire) -> None:
    wire.send("GET /" + "x" * http_protocol.HEAD_BYTES)
    assert (await wire.refusal())[0] == 431


async def test_what_is_no_http_is_refused_in_json(wire: Wire) -> None:
    wire.send("\x16\x03\x01 hello\r\n\r\n")
    assert await wire.refusal() == (400, "Invalid HTTP request received.")


async def test_a_few_requests_may_wait_for_their_turn_on_a_connection(wire: Wire) -> None:
    few, many = http_protocol.MOST_PIPELINED, 200
    wire.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * few)
    for _ in range(few):
        assert (await wire.until("\r\n\r\n")).startswith("HTTP/1.1 200 ")
        await wire.until("}")
    wire.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * many)
    with suppress(ConnectionResetError):
        assert (await wire.rest()).count("HTTP/1.1 200 ") < many
    assert wire.reader.at_eof() or wire.reader.exception() is not None


TEXT, MORE, CLOSE, PING, PONG = 1, 0, 8, 9, 10


def frame(kind: int, content: bytes = b"", *, fin: bool = True) -> bytes:
    """Return a client's frame, masked with zeros."""
    assert len(content) < 126
    return bytes([fin << 7 | kind, 0x80 | len(content)]) + bytes(4) + content


@pytest_asyncio.fixture(loop_scope="module")
async def socket(wire: Wire) -> Wire:
    """The same connection, as a WebSocket to an agent."""
    wire.send(handshake("/v1/agents/assistant/stream", "localhost"))
    assert "101" in await wire.until("\r\n\r\n")
    return wire


def handshake(target: str, host: str) -> str:
    """Return a request to open a WebSocket."""
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("authority", "host", "status"),
    [("other.example", "localhost", 403), ("localhost", "other.example", 101)],
)
async def test_a_websockets_host_is_that_of_the_target_if_it_has_one(
    wire: Wire, authority: str, host: str, status: int
) -> None:
    wire.send(handshake(f"http://{authority}/v1/agents/assistant/stream", host))
    assert f"HTTP/1.1 {status} " in await wire.until("\r\n\r\n")


async def frame_from(wire: Wire) -> tuple[int, bytes]:
    """Return kind and content of the gateway's next frame, which is a short one."""
    async with asyncio.timeout(TIMEOUT):
        kind, size = await wire.reader.readexactly(2)
        return kind & 0x0F, await wire.reader.readexactly(size)


@pytest.mark.parametrize(
    "half",
    [frame(TEXT, b'{"id":1,', fin=False), frame(TEXT, b'{"id":1}')[:-3], b"\x81"],
    ids=["a frame that is not the last", "half a frame", "half a frame's head"],
)
async def test_half_a_message_over_a_websocket_is_not_waited_for_for_ever(
    socket: Wire, half: bytes
) -> None:
    socket.writer.write(half)
    kind, content = await frame_from(socket)
    assert (kind, int.from_bytes(content[:2])) == (CLOSE, 1008)
    assert content[2:].decode() == "the message was not received within the time limit"


async def test_a_message_of_too_many_frames_is_refused(socket: Wire) -> None:
    many = frame(MORE, fin=False) * websocket_protocol.MOST_FRAMES
    socket.writer.write(frame(TEXT, b"{", fin=False) + many)
    kind, content = await frame_from(socket)
    assert (kind, int.from_bytes(content[:2])) == (CLOSE, 1009)


async def test_a_client_that_pings_and_takes_nothing_costs_no_memory(
    gateway: str, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleet.working
    served, received = list[websocket_protocol.WebSocketProtocol](), 0
    data_received = websocket_protocol.WebSocketProtocol.data_received

    def taken(wire: websocket_protocol.WebSocketProtocol, data: bytes) -> None:
        nonlocal received
        received += len(data)
        if wire not in served:
            served.append(wire)
        data_received(wire, data)

    monkeypatch.setattr(websocket_protocol.WebSocketProtocol, "data_received", taken)
    place = urlsplit(gateway)
    client = stdlib_socket.socket()
    client.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_RCVBUF, 512 * 1024)
    client.setblocking(False)  # noqa: FBT003 - the standard library's signature
    await asyncio.get_running_loop().sock_connect(client, (place.hostname, place.port))
    reader, writer = await asyncio.open_connection(sock=client)
    wire = Wire(reader, writer)
    wire.send(
        "GET /v1/agents/assistant/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await wire.until("\r\n\r\n")
    many, before = frame(PING, b"x" * 125) * 1_000, received
    async with asyncio.timeout(TIMEOUT):
        for _ in range(100):
            writer.write(many)
            await writer.drain()
    last = frame(PING, b"the last one")
    writer.write(last)

    async def has_all() -> bool:
        return received - before >= 100 * len(many) + len(last)

    await eventually(has_all, "the gateway has read every ping")
    assert served[-1].transport.get_write_buffer_size() < 1024 * 1024
    async with asyncio.timeout(2 * TIMEOUT):
        while (await frame_from(wire)) != (PONG, b"the last one"):
            pass
    writer.close()


async def test_pings_in_halves_are_no_message_that_takes_too_long(
    socket: Wire, timing: GatewayTiming
) -> None:
    ping = frame(PING, b"again")
    end = asyncio.get_running_loop().time() + timing.body + SHORT
    socket.writer.write(ping[:3])
    while asyncio.get_running_loop().time() < end:
        socket.writer.write(ping[3:] + ping[:3])
        while (received := await frame_from(socket))[0] == PING:
            pass
        assert received == (PONG, b"again")
        await asyncio.sleep(SHORT / 10)


async def test_half_a_message_beside_pings_is_not_waited_for_for_ever(socket: Wire) -> None:
    socket.writer.write(frame(TEXT, b'{"id":1,', fin=False))
    async with asyncio.timeout(TIMEOUT):
        while True:
            socket.writer.write(frame(PING, b"again"))
            kind, content = await frame_from(socket)
            if kind == CLOSE:
                break
            await asyncio.sleep(SHORT / 10)
    assert int.from_bytes(content[:2]) == 1008


async def test_a_refused_client_that_takes_nothing_is_disconnected(
    socket: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, paused = asyncio.Event(), asyncio.Event()
    protocol = websocket_protocol.WebSocketProtocol
    connection_lost, pause_writing = protocol.connection_lost, protocol.pause_writing

    def noted(wire: websocket_protocol.WebSocketProtocol, error: Exception | None) -> None:
        lost.set()
        connection_lost(wire, error)

    def held(wire: websocket_protocol.WebSocketProtocol) -> None:
        paused.set()
        pause_writing(wire)

    monkeypatch.setattr(protocol, "connection_lost", noted)
    monkeypatch.setattr(protocol, "pause_writing", held)
    async with asyncio.timeout(TIMEOUT):
        while not paused.is_set():
            socket.writer.write(frame(PING, b"x" * 125) * 1_000)
            await socket.writer.drain()
            await asyncio.sleep(0)
        socket.writer.write(frame(TEXT, b'{"id":1,', fin=False))
        await lost.wait()
