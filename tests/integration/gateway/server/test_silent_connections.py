"""Whatever a client leaves unfinished, on whatever listener: its connection is answered or ends.

Nobody has said who they are, so this holds without credentials.
"""

import asyncio
import struct
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect

from headrace.metrics import CONNECTIONS_TIMED_OUT
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet

SHORT = 1.5
"""Seconds."""

TIMEOUT = 60

HOST = "Host: localhost\r\n"
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
STREAM = "/v1/agents/assistant/stream HTTP/1.1\r\n"
HEALTH = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"


LAST = f"GET /healthz HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    return GatewayTiming(silence=SHORT, body=4 * SHORT)


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"keepalive": 1}


def counted(awaited: str) -> float:
    count: float = CONNECTIONS_TIMED_OUT.labels(awaited)._value.get()
    return count


async def head_of(url: str, sent: str) -> str:
    """Return the head of the gateway's answer to `sent`."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(sent.encode())
    async with asyncio.timeout(TIMEOUT):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return head


async def answer_of(url: str, sent: str, later: str = "") -> str:
    """Return what the gateway writes until it ends a connection on which `sent` was sent.

    `later` is sent when something has been answered.
    """
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(sent.encode())
    async with asyncio.timeout(TIMEOUT):
        first = b""
        if later:
            first = await reader.readuntil(b"\r\n\r\n")
            writer.write(later.encode())
        text = (first + await reader.read()).decode()
    writer.close()
    return text


UNFINISHED = {
    "nothing": ("", "request"),
    "blank lines": ("\r\n\r\n", "request"),
    "a head": (f"GET / HTTP/1.1\r\n{HOST}X:", "head"),
    "a body": (f"POST / HTTP/1.1\r\n{HOST}Content-Length: 9\r\n\r\n", "body"),
    "an upgrade's head": (f"GET {STREAM}{HOST}{UPGRADE}", "head"),
    "a body with an upgrade": (f"GET {STREAM}{HOST}{UPGRADE}Content-Length: 9\r\n\r\n", "body"),
    "chunks with an upgrade": (
        f"POST {STREAM}{HOST}{UPGRADE}Transfer-Encoding: chunked\r\n\r\n",
        "body",
    ),
}


@pytest.mark.parametrize("kind", UNFINISHED)
async def test_an_unfinished_request_ends_its_connection_and_is_counted(
    gateway: str, fleet: ScriptedFleet, kind: str
) -> None:
    sent, awaited = UNFINISHED[kind]
    before = counted(awaited)
    await answer_of(gateway, sent)
    assert counted(awaited) == before + 1
    assert fleet.runs == []


@pytest.mark.parametrize(
    "later",
    ["\r\n", f"GET {STREAM}{HOST}", f"POST /healthz HTTP/1.1\r\n{HOST}Content-Length: 9\r\n\r\n{{"],
    ids=["a blank line", "half a head", "half a body"],
)
async def test_neither_is_one_behind_an_answer_kept(gateway: str, later: str) -> None:
    assert "200 OK" in await answer_of(gateway, HEALTH, later)


async def test_nor_one_whose_answer_did_not_wait_for_all_of_it(gateway: str) -> None:
    head = f"POST /healthz HTTP/1.1\r\n{HOST}Content-Length: 9\r\n\r\n"
    assert "405 Method Not Allowed" in await answer_of(gateway, head, "123456789")


NO_HANDSHAKES = {
    "another method": f"POST {STREAM}{HOST}{UPGRADE}Content-Length: 0\r\n\r\n",
    "a method without a body": f"DELETE {STREAM}{HOST}{UPGRADE}\r\n",
    "a body": f"GET {STREAM}{HOST}{UPGRADE}Content-Length: 2\r\n\r\n{{}}",
    "chunks": f"POST {STREAM}{HOST}{UPGRADE}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.0": f"GET {STREAM}{HOST}{UPGRADE}\r\n".replace("HTTP/1.1", "HTTP/1.0"),
}


@pytest.mark.parametrize("kind", NO_HANDSHAKES)
async def test_a_request_that_is_no_handshake_is_answered_as_if_it_had_no_upgrade(
    gateway: str, kind: str
) -> None:
    plain = NO_HANDSHAKES[kind].replace(UPGRADE, "")
    asked, unasked = [
        (await head_of(gateway, sent)).partition("\r\n")[0] for sent in (NO_HANDSHAKES[kind], plain)
    ]
    assert asked == unasked
    assert 400 <= int(asked.split()[1]) < 500


async def test_what_comes_behind_such_a_request_is_answered_too(gateway: str) -> None:
    both = NO_HANDSHAKES["another method"] + LAST
    assert '{"status":"ok"}' in await answer_of(gateway, both)


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_a_message_with_an_upgrade_reaches_its_agent(
    http: httpx.AsyncClient, fleet: ScriptedFleet, protocol: str
) -> None:
    """As from a proxy that asks for it with every request, or from Java's HttpClient (h2c)."""
    parts = [{"text": "hi"}]
    answer = await http.post(
        "/v1/agents/assistant/message:send",
        json={"message": {"messageId": "1", "role": "ROLE_USER", "parts": parts}},
        headers={"Connection": "upgrade", "Upgrade": protocol, "A2A-Version": "1.0"},
    )
    assert answer.status_code == 200
    assert len(fleet.runs) == 1


BAD_HANDSHAKES = {
    "no key": (UPGRADE.replace("Sec-WebSocket-Key", "X-Key"), 400),
    "a short key": (UPGRADE.replace("ZQ==", ""), 400),
    "two keys": (UPGRADE + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400),
    "another version": (UPGRADE.replace("13", "99"), 400),
    "two origins": (UPGRADE + "Origin: http://localhost\r\n" * 2, 400),
}


@pytest.mark.parametrize("kind", BAD_HANDSHAKES)
async def test_a_handshake_that_breaks_a_rule_is_refused_at_once(gateway: str, kind: str) -> None:
    headers, status = BAD_HANDSHAKES[kind]
    answer = await answer_of(gateway, f"GET {STREAM}{HOST}{headers}\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ")


async def test_nobody_may_tunnel(gateway: str) -> None:
    for upgrade in ("", UPGRADE):
        answer = await answer_of(gateway, f"CONNECT localhost:80 HTTP/1.1\r\n{HOST}{upgrade}\r\n")
        assert answer.startswith("HTTP/1.1 405 ")


async def test_a_target_that_is_not_ascii_is_refused_also_for_a_websocket(gateway: str) -> None:
    for upgrade in ("", UPGRADE):
        answer = await answer_of(gateway, f"GET /ü HTTP/1.1\r\n{HOST}{upgrade}\r\n")
        assert answer.startswith("HTTP/1.1 400 ")


async def test_a_handshake_does_not_overtake_the_answer_to_an_earlier_request(
    gateway: str,
) -> None:
    both = HEALTH + f"GET {STREAM}{HOST}{UPGRADE}\r\n" + LAST
    first, second, *_ = (await answer_of(gateway, both)).split("HTTP/1.1 ")[1:]
    assert (first[:3], second[:3]) == ("200", "405")


@pytest.mark.parametrize("name", ["Cookie", "X-Trace"])
async def test_a_handshake_has_the_same_limits_as_any_request(gateway: str, name: str) -> None:
    url = gateway.replace("http", "ws", 1) + "/v1/agents/assistant/stream"
    for size in (8_300, 60_000):
        async with connect(url, additional_headers={name: "x" * size}) as socket:
            assert socket.response is not None
            assert socket.response.status_code == 101
    many = {f"X-{n}": "x" for n in range(200)}
    async with connect(url, additional_headers=many) as socket:
        assert socket.subprotocol is None
    answer = await answer_of(gateway, f"GET {STREAM}{HOST}{UPGRADE}{name}: {'x' * 66_000}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 431 ")


def http2_frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = http2_frame(4, 0, 0)
UNFINISHED_RPCS = {
    "nothing": b"",
    "half a preface": PREFACE[:9],
    "a preface": PREFACE,
    "settings": PREFACE + SETTINGS,
    "half a frame": PREFACE + SETTINGS + b"\x00\x00\x09\x01",
    "headers without their end": PREFACE + SETTINGS + http2_frame(1, 0, 1, b"\x83\x86"),
    "HTTP/1.1": HEALTH.encode(),
}


@pytest.mark.parametrize("kind", UNFINISHED_RPCS)
async def test_neither_is_an_unfinished_rpc_kept(
    gateway: str, settings: GatewaySettings, kind: str
) -> None:
    assert gateway
    reader, writer = await asyncio.open_connection("127.0.0.1", settings.grpc_port)
    writer.write(UNFINISHED_RPCS[kind])
    async with asyncio.timeout(TIMEOUT):
        await reader.read()
    writer.close()
    assert reader.at_eof()


async def test_the_metrics_page_tells_what_was_awaited(gateway: str) -> None:
    async with httpx.AsyncClient(base_url=gateway, verify=NO_TLS) as http:
        page = (await http.get("/metrics")).text
    for awaited in ("request", "head", "body", "handshake", "message", "received"):
        assert f'headrace_connections_timed_out_total{{awaited="{awaited}"}}' in page
