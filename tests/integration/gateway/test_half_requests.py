"""Requests that are never whole, or too large: bounded in bytes and in time, at no other's cost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from headrace_gateway.server import http_protocol
from tests.integration.gateway.talking import message
from tests.support.scripted_fleet import ScriptedFleet

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


@pytest_asyncio.fixture(loop_scope="module")
async def wire(
    gateway: str, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Wire]:
    assert fleet.working
    monkeypatch.setattr(http_protocol, "SECONDS", SHORT)
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
async def test_half_a_head_is_not_waited_for_for_ever(wire: Wire, half: str) -> None:
    wire.send(half)
    assert await wire.refusal() == (408, "the request was not complete in time")


async def test_a_connection_on_which_nothing_is_asked_is_ended_without_a_word(wire: Wire) -> None:
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
    wire: Wire, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "BODY_SECONDS", 2 * SHORT)
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


async def test_a_head_without_an_end_is_refused_when_it_is_too_large(wire: Wire) -> None:
    wire.send("GET /" + "x" * http_protocol.HEAD_BYTES)
    assert (await wire.refusal())[0] == 431


async def test_what_is_no_http_is_refused_in_json(wire: Wire) -> None:
    wire.send("\x16\x03\x01 hello\r\n\r\n")
    assert await wire.refusal() == (400, "Invalid HTTP request received.")
