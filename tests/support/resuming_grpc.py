"""Follow a task over gRPC through a proxy that can cut the connection at any byte."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf.json_format import ParseDict
from google.rpc import error_details_pb2, status_pb2

from headrace_gateway.protocols.a2a.grpc.forms import CURSOR
from tests.support.clients.protobuf_json import as_logged
from tests.support.resuming_bindings import Ask, Received, Refused
from tests.support.resuming_wire import ConnectionCut, Cut, Request, answered

_TOLD = "grpc-status-details-bin"
"""In what a gateway says of an error; without it, the client's own library has found out."""


@dataclass(slots=True)
class GrpcStream:
    """One call that streams."""

    call: Any
    close_reason: str = ""
    recovered: bool = True
    _seen: list[str] = field(default_factory=list)

    async def events(self) -> AsyncIterator[Received]:
        """Yield events; see `Incoming.events`."""
        try:
            initial = dict(await self.call.initial_metadata())
            self.recovered = initial.get("headrace-recovered") != "false"
            while (event := await self.call.read()) is not grpc.aio.EOF:
                yield _received(event)
        except grpc.aio.AioRpcError as error:
            self.close_reason = _reason(error)


def _received(message: a2a_pb2.StreamResponse) -> Received:
    event = as_logged(message)
    [body] = event.values()
    return Received(body["metadata"].pop(CURSOR), event)


def _reason(error: grpc.aio.AioRpcError) -> str:
    """Return why a gateway ended the stream.

    Raises:
        ConnectionCut: it did not: the connection ended.
        Refused: it refuses what was asked.
    """
    output = error.details() or str(error.code())
    received = dict(error.trailing_metadata() or ()).get(_TOLD)
    if received is None:
        raise ConnectionCut(output)
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return output
    output = f"{_named(received)}: {output}"
    raise Refused(429 if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED else 400, output)


def _named(received: str | bytes) -> str:
    """Return what A2A calls the error."""
    assert isinstance(received, bytes)
    info = error_details_pb2.ErrorInfo()
    found = [
        info.reason for one in status_pb2.Status.FromString(received).details if one.Unpack(info)
    ]
    return "".join(found)


class GrpcBinding:
    """A2A's gRPC service."""

    name = "gRPC"

    def __repr__(self) -> str:
        return self.name

    @asynccontextmanager
    async def opened(self, ask: Ask) -> AsyncIterator[GrpcStream]:
        """Open a stream; see `Binding.opened`."""
        async with AsyncExitStack() as stack:
            target = await _target(ask)
            if ask.cut is not None:
                target = await stack.enter_async_context(_tearing(target, ask.cut))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(target))
            metadata = [("agent-name", ask.agent)]
            metadata += [(name.lower(), value) for name, value in ask.headers().items()]
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            if ask.task:
                request = a2a_pb2.SubscribeToTaskRequest(id=ask.task)
                call = stub.SubscribeToTask(request, metadata=metadata)
            else:
                messages = ParseDict(ask.message(), a2a_pb2.Message())
                sent = a2a_pb2.SendMessageRequest(message=messages)
                call = stub.SendStreamingMessage(sent, metadata=metadata)
            stack.callback(call.cancel)
            yield GrpcStream(call)


async def _target(ask: Ask) -> str:
    """Return where the gateway's gRPC is, as its card says.

    Raises:
        ConnectionCut: it does not say.
    """
    path = f"/v1/agents/{ask.agent}/.well-known/agent-card.json"
    async with answered(ask.gateway, Request("GET", path)) as answer:
        body = b"".join([piece async for piece in answer.body()])
    if answer.status != HTTPStatus.OK:
        raise ConnectionCut(f"no card: {answer.status}")
    card = json.loads(body)
    [target] = [i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == "GRPC"][:1]
    return str(target)


@asynccontextmanager
async def _tearing(target: str, cut: Cut) -> AsyncIterator[str]:
    """Forward connections to `target`, torn after so many bytes of what it says."""
    split = urlsplit(f"//{target}")
    pumps = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(split.hostname, split.port)
        except OSError:
            writer.close()
            return
        for source, sink, most in ((reader, forth, None), (back, writer, cut.after)):
            pumps.add(asyncio.create_task(_pump(source, sink, most, cut)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int | None, cut: Cut
) -> None:
    try:
        while most != 0 and (data := await source.read(most or 65536)):
            sink.write(data)
            await sink.drain()
            most = None if most is None else most - len(data)
        if most == 0 and cut.by_reset:
            sink.transport.abort()
    except OSError:
        pass
    finally:
        sink.close()


GRPC = GrpcBinding()
