"""gRPC behind the interface of the JSON bindings: its answers are converted to their responses."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import httpx
import orjson
from a2a.types import a2a_pb2
from google.protobuf import any_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from tests.support.clients.bindings import Json, Talk
from tests.support.clients.protobuf_json import as_logged

_SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
_EXTRA = SimpleNamespace(
    input_type=struct_pb2.Struct.DESCRIPTOR,
    output_type=a2a_pb2.Task.DESCRIPTOR,
    server_streaming=False,
)
"""ForkTask, which A2A's service does not have."""

_METHODS: dict[str, Any] = {**_SERVICE.methods_by_name, "ForkTask": _EXTRA}
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}
_PASSED_ON = (
    "a2a-version",
    "a2a-extensions",
    "x-a2a-extensions",
    "idempotency-key",
    "authorization",
    "x-api-key",
    "x-partner-key",
)
_IN_METADATA = {
    "currentGeneration": "current-generation",
    "ifGenerationMatch": "if-generation-match",
}
_EMPTY_LIST: Json = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
_GRACE = 2.0
"""Seconds in which a stream that was refused shows it, after its initial metadata."""


class Grpc(Talk):
    """gRPC. Events' cursors, which it tells in their metadata, are told beside them here."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        agent: str | None = None,
        channel: grpc.aio.Channel | None = None,
    ) -> None:
        """Talk over `channel`; what `http` would send as headers goes along as metadata."""
        super().__init__(http, agent)
        assert channel is not None
        self.agent, self.channel = agent, channel

    def to(self, agent: str) -> "Grpc":
        return Grpc(self.http, agent, self.channel)

    async def send(self, operation: str, params: Any) -> httpx.Response:  # noqa: ANN401 - any JSON
        method, request, metadata = self._asked(operation, params, {})
        rpc: grpc.aio.UnaryUnaryMultiCallable[Message, Message] = self.channel.unary_unary(
            f"/{_SERVICE.full_name}/{operation}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        if method.server_streaming:
            async with self.open(operation, params, {}) as response:
                await response.aread()
                return response
        call = rpc(request, metadata=metadata, timeout=90)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            return refused(error)
        headers = texts(await call.initial_metadata())
        return httpx.Response(200, headers=headers, content=orjson.dumps(said(answer)))

    @asynccontextmanager
    async def open(
        self, operation: str, params: Json, headers: Json
    ) -> AsyncIterator[httpx.Response]:
        _, request, metadata = self._asked(operation, params, headers)
        rpc: grpc.aio.UnaryStreamMultiCallable[Message, Message] = self.channel.unary_stream(
            f"/{_SERVICE.full_name}/{operation}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=a2a_pb2.StreamResponse.FromString,
        )
        call = rpc(request, metadata=metadata)
        first: asyncio.Task[Any] = asyncio.create_task(call.read())
        try:
            initial = texts(await call.initial_metadata())
            await asyncio.wait({first}, timeout=_GRACE)
            if first.done() and isinstance(error := first.exception(), grpc.aio.AioRpcError):
                yield refused(error)
            else:
                yield httpx.Response(200, headers=initial, content=_frames(call, first))
        finally:
            call.cancel()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    def result(self, body: Json) -> Json:
        return body

    def details(self, error: Json) -> list[Json]:
        details: list[Json] = error["details"]
        return details

    def _asked(
        self, operation: str, params: Json, headers: Json
    ) -> tuple[Any, Message, list[tuple[str, str]]]:
        method = _METHODS[operation]
        beside = {
            _IN_METADATA[name]: str(value)
            for holder in (params, params.get("configuration", {}))
            for name, value in holder.items()
            if name in _IN_METADATA
        }
        kept = {name: self.http.headers[name] for name in _PASSED_ON if name in self.http.headers}
        agent = {"agent-name": self.agent} if self.agent else {}
        metadata = kept | agent | beside | {name.lower(): text(v) for name, v in headers.items()}
        request = GetMessageClass(method.input_type)()
        return (
            method,
            ParseDict(params, request, ignore_unknown_fields=True),
            list(metadata.items()),
        )


def refused(error: grpc.aio.AioRpcError) -> httpx.Response:
    """Return the REST response that says the same."""
    trailing = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailing.get("grpc-status-details-bin", b""))
    assert not status.details or status.message == error.details()
    http_status = _STATUSES[error.code().name]
    details = [_unpacked(detail) for detail in status.details]
    body = {"error": {"code": http_status, "message": error.details(), "details": details}}
    headers = texts(tuple(trailing.items())) | {"content-type": "application/json"}
    return httpx.Response(http_status, headers=headers, content=orjson.dumps(body))


def _unpacked(detail: any_pb2.Any) -> Json:
    kind = getattr(error_details_pb2, detail.TypeName().rpartition(".")[2])()
    assert detail.Unpack(kind)
    return {"@type": detail.type_url, **MessageToDict(kind)}


def said(answer: Message) -> Json:
    """Return an answer as the JSON of the other bindings."""
    found = as_logged(answer)
    return (_EMPTY_LIST | found) if isinstance(answer, a2a_pb2.ListTasksResponse) else found


async def _frames(
    call: "grpc.aio.UnaryStreamCall[Message, Message]", first: "asyncio.Task[Any]"
) -> AsyncIterator[bytes]:
    event = await first
    while event is not grpc.aio.EOF:
        body = said(event)
        (inner,) = body.values()
        cursor = inner["metadata"].pop("headrace.cursor")
        yield b"id: %b\ndata: %b\n\n" % (cursor.encode(), orjson.dumps(body))
        event = await call.read()


def text(value: str | bytes) -> str:
    """Return a header's value."""
    return value.decode("latin-1") if isinstance(value, bytes) else value


def texts(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """Return the metadata that is text."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}
