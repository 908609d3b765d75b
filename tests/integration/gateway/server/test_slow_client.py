"""A client that stops reading costs the same in every protocol: memory, time, and what it is told.

For each protocol a few clients ask for a task and read nothing; then the task says a lot. What they
cost goes into the report (`pytest -rP`); what they may cost at most is asserted.
"""

import asyncio
import gc
import json
import logging
import resource
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming import subscription
from headrace_gateway.streaming.renderer import Cause
from tests.integration.gateway.protocols.a2a.grpc.test_service import read_out, stub_of
from tests.integration.gateway.scripts import AGENTS
from tests.support.agui.runs import path, run_input
from tests.support.clients.websocket import connect
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

CLIENTS = 4
STALL = 2.0
"""Seconds in which a client that stops reading is not yet cut off."""
CHUNKS, CHUNK = 150, 100_000
MOST_HELD = 2_000_000
"""Bytes for each client, of the 15 MB that there are."""
TOLD = "the client stopped reading"
_SMALL = [("grpc.http2.lookahead_bytes", 65_536), ("grpc.http2.bdp_probe", 0)]


@dataclass
class Task:
    """The long task, and where it is served."""

    url: str
    grpc_port: int
    work: Run
    thread: str
    run: str

    @property
    def cursor(self) -> str:
        """The place of its first event."""
        return f"{self.work.log}:1"


type Outcome = Callable[[], Awaitable[str]]
"""Reads all that a client was sent; returns what it was told last."""

type Client = AbstractAsyncContextManager[Outcome]


@asynccontextmanager
async def http_client(task: Task, target: str, *headers: str) -> AsyncIterator[Outcome]:
    """Ask for `target`, and read nothing before it is asked for."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    sock.setblocking(False)  # noqa: FBT003 - theirs  # noqa: FBT003 - theirs
    url = httpx.URL(task.url)
    await asyncio.get_running_loop().sock_connect(sock, (url.host, url.port))
    reader, writer = await asyncio.open_connection(sock=sock)
    lines = [f"GET {target} HTTP/1.1", f"Host: {url.host}", "A2A-Version: 1.0", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    assert b" 200 " in await reader.readline()
    await reader.readuntil(b"id: ")

    async def outcome() -> str:
        tail = b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            data = await reader.read(65_536)
            assert data, "the body was torn off"
            tail = (tail + data)[-65_536:]
        return tail.decode(errors="replace").rpartition("id: ")[2]

    try:
        yield outcome
    finally:
        writer.transport.abort()


@asynccontextmanager
async def socket_client(task: Task, target: str, ask: object) -> AsyncIterator[Outcome]:
    """Open a WebSocket and ask for the task, and read nothing before it is asked for."""
    async with connect(task.url.replace("http", "ws") + target, max_size=None) as opened:
        await opened.send(json.dumps(ask))
        await opened.recv()
        opened.transport.pause_reading()

        async def outcome() -> str:
            opened.transport.resume_reading()
            return await _closed(opened)

        yield outcome


async def _closed(opened: ClientConnection) -> str:
    last = ""
    try:
        while True:
            last = str(await opened.recv())[-1_000:]
    except ConnectionClosed:
        return f"{last}\n{opened.close_code} {opened.close_reason}"


def sse_a2a(task: Task) -> Client:
    target = f"/v1/agents/patient/tasks/{task.work.key.task}:subscribe"
    return http_client(task, target, f"Last-Event-ID: {task.cursor}")


def sse_hector(task: Task) -> Client:
    target = f"/v1/agents/patient/tasks/{task.work.key.task}:subscribe?format=agui"
    return http_client(task, target, f"Last-Event-ID: {task.cursor}")


def sse_agui(task: Task) -> Client:
    target = f"{path('patient')}/attach?threadId={task.thread}&runId={task.run}"
    return http_client(task, target, f"Last-Event-ID: {task.cursor}.0")


def websocket_a2a(task: Task) -> Client:
    ask = {"id": 1, "subscribe": {"task": task.work.key.task, "after": task.cursor}}
    return socket_client(task, "/v1/agents/patient/stream", ask)


def websocket_agui(task: Task) -> Client:
    attach = {"threadId": task.thread, "runId": task.run, "after": f"{task.cursor}.0"}
    return socket_client(task, f"{path('patient')}/ws", {"attach": attach})


@asynccontextmanager
async def grpc_a2a(task: Task) -> AsyncIterator[Outcome]:
    address = f"127.0.0.1:{task.grpc_port}"
    async with grpc.aio.insecure_channel(address, options=_SMALL) as channel:
        metadata = (("agent-name", "patient"), ("last-event-id", task.cursor))
        request = a2a_pb2.SubscribeToTaskRequest(id=task.work.key.task)
        call = stub_of(channel).SubscribeToTask(request, metadata=metadata)
        await call.read()

        async def outcome() -> str:
            status = await read_out(call)
            return f"{status.name} {await call.details()}"

        yield outcome


PROTOCOLS: dict[Callable[[Task], Client], list[str]] = {
    sse_a2a: [f": {TOLD}\nretry: 500"],
    sse_agui: [f": {TOLD}\nretry: 500", "RUN_ERROR", '"disconnected"'],
    sse_hector: [f": {TOLD}\nretry: 500", "event: error", '"disconnected"'],
    websocket_a2a: [f"1013 {TOLD}"],
    websocket_agui: [f"1013 {TOLD}", "RUN_ERROR", '"disconnected"'],
    grpc_a2a: [f"UNAVAILABLE {TOLD}"],
}
"""Each protocol's clients, and what they are told."""


async def _waits(fleet: ScriptedFleet) -> bool:
    return bool(fleet.runs) and fleet.runs[0].writer.generation == 3


@asynccontextmanager
async def waiting_task(settings: GatewaySettings) -> AsyncIterator[Task]:
    """Serve a task that waits, on subjects and streams of its own: there is no other one."""
    name = f"slow{secrets.token_hex(4)}"
    own = settings.model_copy(
        update={
            "prefix": name,
            "stream_prefix": name,
            "http_port": ports.pick(),
            "grpc_port": ports.pick(),
            "stall_timeout": STALL,
            "feed_bytes": 200_000,
        }
    )
    bus = Bus(BusSettings.model_validate(own.model_dump()))
    await bus.connect("fleet")
    fleet = await ScriptedFleet(bus, AGENTS).start()
    try:
        async with (
            running(own) as url,
            httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
        ):
            body = run_input()
            async with http.stream("POST", path("patient"), json=body):
                await eventually(lambda: _waits(fleet), "the run waits")
            work = fleet.runs[0]
            yield Task(url, own.grpc_port, work, body["threadId"], body["runId"])
            work.go_on.set()
    finally:
        await fleet.stop()
        await bus.close()


def memory() -> int:
    """Return the bytes that this process, which is the gateway too, has in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("client", PROTOCOLS, ids=lambda client: client.__name__)
async def test_a_client_that_takes_nothing(
    client: Callable[[Task], Client],
    settings: GatewaySettings,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "headrace_gateway.streaming.subscription")
    # Clients that begin to read are told also where a machine takes long to run them.
    monkeypatch.setitem(subscription.INTERRUPTION_TIMEOUTS, Cause.STALLED, 120.0)
    loop = asyncio.get_running_loop()
    async with waiting_task(settings) as task, AsyncExitStack() as stack:
        outcomes = [await stack.enter_async_context(client(task)) for _ in range(CLIENTS)]
        before, begun, most = memory(), loop.time(), 0
        for _ in range(CHUNKS):
            await task.work.chunk("x" * CHUNK)

        async def all_cut_off() -> bool:
            nonlocal most
            most = max(most, memory() - before)
            ended = [one for one in caplog.messages if TOLD in one and task.work.key.task in one]
            return len(ended) == CLIENTS

        await eventually(all_cut_off, "all are cut off", 120)
        took = loop.time() - begun
        received = await asyncio.gather(*(outcome() for outcome in outcomes))
    print(f"{client.__name__}: {most // CLIENTS // 1000} KB each, cut off after {took:.1f} s")  # noqa: T201
    assert took > STALL
    assert most < CLIENTS * MOST_HELD
    assert len(received) == CLIENTS
    for output in received:
        assert all(word in output for word in PROTOCOLS[client]), output[-500:]
