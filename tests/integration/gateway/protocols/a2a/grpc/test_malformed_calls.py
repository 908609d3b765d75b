"""Calls whose heads gRPC's clients would not send: none ends the server, or fills its log."""

import asyncio
import logging
import struct
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from a2a.types import a2a_pb2

from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.protocols.a2a.grpc.test_service import stub_of
from tests.support import extra_services
from tests.support.servers import NatsProcess, ports

CHECK = b"/grpc.health.v1.Health/Check"
NOT_UTF8 = b"caf\xe9"
SEND = "/lf.a2a.v1.A2AService/SendMessage"
HALF = "\ud83d".encode("utf-8", "surrogatepass")
"""Half of a character, as no library of protobuf writes it."""
HEADERS, DATA = 1, 0
END_HEADERS, END_STREAM = 4, 1
EMPTY = b"\0\0\0\0\0"
"""A message of no bytes."""


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return an HTTP/2 frame (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def field(name: bytes, value: bytes) -> bytes:
    """Return a header field as a literal (RFC 7541, section 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(path: bytes, stream: int = 1, *more: tuple[bytes, bytes]) -> bytes:
    """Return the frames of a call."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *more,
    )
    head = b"".join(field(*one) for one in fields)
    return frame(HEADERS, END_HEADERS, stream, head) + frame(DATA, END_STREAM, stream, EMPTY)


async def status(port: int, calls: bytes, number: int = 1) -> bytes:
    """Send `calls` on a connection, and return the responses, up to the status `number`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + calls)
    received = b""
    async with asyncio.timeout(30):
        while received.count(b"grpc-status") < number:
            more = await reader.read(65_536)
            assert more, received
            received += more
    writer.close()
    return received


async def answers(port: int) -> bool:
    """Whether the server answers a call that is whole."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        found = await stub_of(channel).ListTasks(a2a_pb2.ListTasksRequest(), timeout=30)
    return found is not None


@pytest.mark.parametrize(
    "path", [b"/lf.a2a.v1.A2AService/" + NOT_UTF8, NOT_UTF8, b"/\xff", b"/a/b/c", b"/"]
)
async def test_a_path_that_is_no_methods_is_unimplemented_and_ends_nothing(
    gateway: str, settings: GatewaySettings, path: bytes
) -> None:
    assert gateway
    received = await status(settings.grpc_port, call(path))
    unimplemented = str(grpc.StatusCode.UNIMPLEMENTED.value[0]).encode()
    assert field(b"grpc-status", unimplemented)[1:] in received
    assert await answers(settings.grpc_port)


async def test_metadata_that_is_not_utf8_is_a_line_without_a_traceback(
    gateway: str, settings: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    assert gateway
    with caplog.at_level(logging.WARNING):
        await status(settings.grpc_port, call(CHECK, 1, (b"x-note", NOT_UTF8)))
    [line] = caplog.records
    assert line.getMessage().startswith("metadata of a gRPC client is not UTF-8: ")
    assert line.levelno == logging.WARNING
    assert line.exc_info is None
    assert await answers(settings.grpc_port)


async def test_text_with_half_of_a_character_is_an_invalid_argument(
    gateway: str, settings: GatewaySettings
) -> None:
    assert gateway
    whole = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=[{"text": "abc"}])
    request = a2a_pb2.SendMessageRequest(message=whole).SerializeToString()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        send: Any = channel.unary_unary(SEND)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await send(request.replace(b"abc", HALF), timeout=30)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "the request is not a lf.a2a.v1.SendMessageRequest"
    assert await answers(settings.grpc_port)


def test_a_gateways_process_writes_no_line_for_a_header_that_grpc_can_not_read(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    """Or any client fills its log. gRPC's core reads how much it writes when it is imported."""
    port = ports.pick()
    own = {"HEADRACE_GRPC_PORT": str(port)}
    gateway, _ = extra_services.gateway(tmp_path, nats_server.url, **own)
    gateway.anew = True
    unreadable = [(b"grpc-timeout", b"soon"), (b"grpc-encoding", b"none such")]
    with gateway:
        for one in unreadable:
            asyncio.run(status(port, call(CHECK, 1, one)))
    assert "hpack_parser" not in gateway.log.read_text()
