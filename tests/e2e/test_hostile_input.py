"""What clients may not say, tried over every binding.

That is the fleet's metadata, JSON that nests deep, and text that would write lines of a log.
"""

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, override

import grpc
import grpc.aio
import httpx
import pytest

from tests.support.clients.websocket import connect
from tests.support.isolation import grpc_talk
from tests.support.plain_http import NO_TLS
from tests.support.stack import Stack
from tests.support.stored_log import events_of
from tests.support.waiting import eventually

type Json = dict[str, Any]

FORGED = "said-by-a-client"
RESERVED: Json = {
    f"headrace.{name}": FORGED
    for name in (
        *("agui", "attempt", "child", "delegation", "discardedAfter", "extensions", "generation"),
        *("handedBack", "inputSchema", "interrupts", "queued", "recovered", "retryOf", "shown"),
        *("taken", "traceparent", "worker", "toolCalls", "acceptedOutputModes", "behind", ""),
    )
}
LEVELS = (91, 260, 900, 5_000)
DEEP = "the deep one"
TOO_DEEP = "nested deeper than 90 levels"
HOSTILE = "a\nFORGED ERROR all is lost\r\x1b[2J\x9b\u2028\u202e"


def nested(levels: int) -> str:
    """Return JSON that no library would write."""
    return '{"a":' * levels + "1" + "}" * levels


class Answer(tuple[int, str]):
    """A status as of HTTP, and what came."""

    __slots__ = ()

    @property
    def status(self) -> int:
        return self[0]

    @property
    def text(self) -> str:
        return self[1]


class Binding(ABC):
    """One way to send a message to `echo`."""

    deep: tuple[str, ...] = ("request", "message", "part", "data", "unknown")
    """Where what nests deep can stand."""

    def __init__(self, http: httpx.AsyncClient, context: str) -> None:
        """Send over `http` in `context`."""
        self.http, self.context = http, context

    @abstractmethod
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        """Return the request that has what is `output` in each place."""

    @abstractmethod
    async def send(self, body: str) -> Answer:
        """Send a request as it is written."""

    def message(self, output: Mapping[str, Any], text: str, **fields: Any) -> Json:  # noqa: ANN401
        """Return the message with metadata."""
        part = {"text": text, "metadata": output.get("part", {})}
        parts: list[Json] = [part]
        if "data" in output:
            parts.append({"data": {"a": output["data"]}})
        identity = {"messageId": secrets.token_hex(4), "contextId": self.context}
        return {**identity, "parts": parts, "metadata": output.get("message", {}), **fields}


def _status(text: str) -> int:
    """Return what an answer without a status of its own comes to."""
    if "-32603" in text or "INTERNAL" in text or '"internal"' in text:
        return 500
    return 400 if '"error":' in text or "RUN_ERROR" in text else 200


class Rest(Binding):
    path = "/v1/agents/echo/message:send"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        message = self.message(output, text, role="ROLE_USER")
        message["unknown"] = output.get("unknown", {})
        return {"message": message, "metadata": output.get("request", {})}

    @override
    async def send(self, body: str) -> Answer:
        headers = {"Content-Type": "application/json"}
        answer = await self.http.post(self.path, content=body.encode(), headers=headers)
        return Answer((answer.status_code, answer.text))


class Streamed(Rest):
    path = "/v1/agents/echo/message:stream"


class Rpc(Rest):
    path = "/v1/agents/echo"
    method = "SendMessage"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        params = super().body(output, text)
        return {"jsonrpc": "2.0", "id": "x", "method": self.method, "params": params}

    @override
    async def send(self, body: str) -> Answer:
        status, text = await super().send(body)
        return Answer((_status(text) if status == 200 else status, text))


class A2Av03Rpc(Rpc):
    method = "message/send"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        part = {"kind": "text", "text": text, "metadata": output.get("part", {})}
        parts: list[Json] = [part]
        if "data" in output:
            parts.append({"kind": "data", "data": {"a": output["data"]}})
        message = self.message(output, text, role="user", kind="message", parts=parts)
        message["unknown"] = output.get("unknown", {})
        params = {"message": message, "metadata": output.get("request", {})}
        return {"jsonrpc": "2.0", "id": "x", "method": self.method, "params": params}

    @override
    async def send(self, body: str) -> Answer:
        self.http.headers["A2A-Version"] = "0.3"
        try:
            return await super().send(body)
        finally:
            self.http.headers["A2A-Version"] = "1.0"


class Hector(Rpc):
    path = "/v1/agents/echo/rpc?format=hector"
    method = "message/send"


class HectorStream(Streamed):
    path = "/v1/agents/echo/stream"


class HectorRpcStream(Rpc):
    path = "/v1/agents/echo/stream"
    method = "SendStreamingMessage"


class Socket(Rpc):
    deep = (*Rpc.deep, "id")
    path = "/v1/agents/echo/stream"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        return super().body(output, text) | {"id": output.get("id", "x")}

    @override
    async def send(self, body: str) -> Answer:
        url = str(self.http.base_url.copy_with(scheme="ws")).rstrip("/")
        async with connect(f"{url}{self.path}", max_size=None) as socket:
            await socket.send(body)
            output = str(await asyncio.wait_for(socket.recv(), 60))
        return Answer((_status(output), output))


class Agui(Binding):
    deep = ("state", "forwardedProps", "context", "tools", "part", "unknown")
    path = "/v1/agents/echo/ag-ui"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        content = [{"type": "text", "text": text, "metadata": output.get("part", {})}]
        user = {
            "id": "u",
            "role": "user",
            "content": content,
            "metadata": output.get("message", {}),
        }
        tool = {"name": "t", "description": "", "parameters": output.get("tools", {})}
        return {
            "threadId": self.context,
            "runId": secrets.token_hex(4),
            "state": output.get("state", {}),
            "messages": [user],
            "tools": [tool],
            "context": [{"description": "d", "value": output.get("context", "v")}],
            "forwardedProps": output.get("forwardedProps", {}),
            "metadata": output.get("request", {}),
            "unknown": output.get("unknown", {}),
        }

    @override
    async def send(self, body: str) -> Answer:
        headers = {"Content-Type": "application/json"}
        answer = await self.http.post(self.path, content=body.encode(), headers=headers)
        return Answer((answer.status_code, answer.text))


class AguiSocket(Agui):
    path = "/v1/agents/echo/ag-ui/ws"
    send = Socket.send  # One class's frames are another's.


class Copilot(Agui):
    path = "/copilotkit/agent/echo/run"


class CopilotInOne(Agui):
    path = "/copilotkit"

    @override
    def body(self, output: Mapping[str, Any], text: str = "hello") -> Json:
        params = {"agentId": "echo"}
        return {"method": "agent/run", "params": params, "body": super().body(output, text)}


BINDINGS: Mapping[str, type[Binding]] = {
    "REST": Rest,
    "REST, streamed": Streamed,
    "JSON-RPC": Rpc,
    "0.3": A2Av03Rpc,
    "Hector": Hector,
    "Hector, streamed": HectorStream,
    "Hector, JSON-RPC streamed": HectorRpcStream,
    "WebSocket": Socket,
    "AG-UI": Agui,
    "AG-UI WebSocket": AguiSocket,
    "CopilotKit": Copilot,
    "CopilotKit, one URL": CopilotInOne,
}


@asynccontextmanager
async def client_of(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"A2A-Version": "1.0"}
    async with httpx.AsyncClient(
        base_url=stack.url, headers=headers, timeout=90, verify=NO_TLS
    ) as http:
        yield http


async def tasks_in(http: httpx.AsyncClient, context: str) -> list[str]:
    found = await http.get("/v1/agents/echo/tasks", params={"contextId": context})
    return [task["id"] for task in found.raise_for_status().json()["tasks"]]


def forgeries(output: object, path: str = "") -> Iterator[str]:
    """Yield where one of the fleet's keys says what the client did."""
    if isinstance(output, list):
        for number, one in enumerate(output):
            yield from forgeries(one, f"{path}[{number}]")
    elif isinstance(output, dict):
        for key, value in output.items():
            if key.startswith("headrace.") and value == FORGED:
                yield f"{path}.{key}"
            elif key not in {"headrace.agui", "agui_part"}:  # A client's own words, as they were.
                yield from forgeries(value, f"{path}.{key}")


def own_metadata(events: list[Json]) -> set[str]:
    """Return the keys of the metadata of what users said."""
    [message, *_] = events[0]["task"]["history"]
    outputs = [message, *message["parts"]]
    return {key for one in outputs for key in one.get("metadata", {})}


@pytest.mark.parametrize("name", BINDINGS)
async def test_the_fleets_metadata_is_dropped(stack: Stack, name: str) -> None:
    context = f"context-{secrets.token_hex(6)}"
    async with client_of(stack) as http:
        binding = BINDINGS[name](http, context)
        given = {**RESERVED, "mine": 1}
        body = binding.body(dict.fromkeys(("request", "message", "part"), given))
        waiting = await binding.send(json.dumps(body))
        assert waiting.status == 200, waiting.text

        async def is_listed() -> bool:
            return bool(await tasks_in(http, context))

        await eventually(is_listed, "the task is listed")
        [task] = await tasks_in(http, context)
    events = await events_of(stack.dev()["nats_url"], "echo", task)
    assert not list(forgeries(events))
    assert not {key for key in own_metadata(events) if key.startswith("headrace.")}


@pytest.mark.parametrize("name", BINDINGS)
async def test_json_that_nests_too_deep_is_refused_by_name(stack: Stack, name: str) -> None:
    async with client_of(stack) as http:
        binding = BINDINGS[name](http, f"context-{secrets.token_hex(6)}")
        assert binding.deep
        for place in binding.deep:
            for levels in LEVELS:
                body = json.dumps(binding.body({place: DEEP}))
                waiting = await binding.send(body.replace(f'"{DEEP}"', nested(levels)))
                what = place, levels, waiting.status, waiting.text[:500]
                if place == "unknown" and waiting.status == 200:
                    continue  # What nobody reads may be anything.
                assert 400 <= waiting.status < 500, what
                # What no parser takes is no JSON to anybody.
                assert TOO_DEEP in waiting.text or levels > 900, what


async def test_grpc_messages_that_nest_too_deep_are_refused(stack: Stack) -> None:
    async with client_of(stack) as http, grpc_talk(http, "echo") as talk:
        send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = talk.channel.unary_unary(
            "/lf.a2a.v1.A2AService/SendMessage"
        )
        metadata = (("agent-name", "echo"), ("a2a-version", "1.0"))
        for levels in (60, 91, 260, 5_000):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await send(_deep_message(levels), metadata=metadata, timeout=60)
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT, levels


def _deep_message(levels: int) -> bytes:
    """Return a SendMessageRequest whose metadata nests so deep, as no library writes it."""
    value = b""
    for _ in range(levels):
        struct = _field(1, _field(1, b"a") + _field(2, value))
        value = _field(5, struct)
    struct = _field(1, _field(1, b"a") + _field(2, value))
    part = _field(1, b"hello")
    message = _field(1, b"m") + b"\x20\x01" + _field(5, part)
    return _field(2, message) + _field(4, struct)


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


@pytest.mark.parametrize("name", BINDINGS)
async def test_no_client_writes_lines_of_a_log(stack: Stack, name: str) -> None:
    async with client_of(stack) as http:
        binding = BINDINGS[name](http, f"context-{secrets.token_hex(6)}{HOSTILE}"[:250])
        for body in (
            binding.body({}, HOSTILE),
            binding.body({}) | {"method": HOSTILE, "threadId": HOSTILE, "message": HOSTILE},
            binding.body({"message": {"headrace.priority": HOSTILE}, "request": RESERVED}),
        ):
            waiting = await binding.send(json.dumps(body))
            assert waiting.status < 500, waiting.text
            again = await binding.send(HOSTILE)
            assert 400 <= again.status < 500, again.text
    # Services end lines by "\n" alone, and `headrace dev` puts a label before each.
    for line in stack.log().split("\n"):
        assert "FORGED" not in line[:40]
        assert line.isprintable()
