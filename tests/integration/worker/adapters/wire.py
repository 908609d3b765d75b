"""A model that says what a test has it say, whichever wire format an adapter's framework speaks."""

from asyncio import StreamWriter
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, override

import orjson

from headrace.model.events import Json
from tests.support.chat_stub import ChatStub, Reply, call, chunk, deltas, serving, usage


@dataclass(frozen=True)
class ModelReply:
    """An answer, in pieces."""

    pieces: tuple[str, ...]
    calls: tuple[tuple[str, str, Json], ...] = ()
    """Of tools: id, name, arguments."""
    cut: bool = False
    """Whether the connection breaks before the answer is over."""
    hangs: bool = False
    """Whether it never goes on."""


@dataclass(frozen=True)
class Refuses:
    """A status instead of an answer."""

    status: int = 429


type ModelOutput = ModelReply | Refuses


def replies(*pieces: str, cut: bool = False, hangs: bool = False) -> ModelReply:
    """Return an answer of text."""
    return ModelReply(pieces, cut=cut, hangs=hangs)


def calls(*called: tuple[str, str, Json], cut: bool = False) -> ModelReply:
    """Return an answer of tool calls."""
    return ModelReply((), called, cut=cut)


@dataclass
class ModelMessage:
    """One message of a request, as the framework told the model."""

    role: str
    text: str = ""
    images: list[bytes | str] = field(default_factory=list)
    """Contents, or addresses."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Names and arguments."""
    answers: str = ""
    """Of a tool's result: the call's id."""

    @property
    def line(self) -> str:
        """The message in a line, for comparing conversations."""
        called = [f"{name}({','.join(map(str, given.values()))})" for name, given in self.calls]
        return " ".join(filter(None, [f"{self.role}:", self.text, *called]))


class Model(Protocol):
    """A running model server."""

    url: str

    @property
    def conversations(self) -> list[list[ModelMessage]]:
        """The conversation of each request, in order, without system messages."""

    async def until_left(self) -> None:
        """Return when a client has closed the connection of an answer that hangs."""

    async def until_received(self, requests: int) -> None:
        """Return when that many requests have come."""


type Script = Iterable[ModelOutput] | Callable[[list[ModelMessage]], ModelOutput]
"""What the model says: one after the other, or as it is asked."""


class ChatModel(ChatStub):
    """Speaks OpenAI's chat completions."""

    def __init__(self, script: Script) -> None:
        """Say what `script` has it say."""
        if callable(script):
            super().__init__(lambda request: _reply(script(_conversation(request))))
        else:
            super().__init__(map(_reply, script))

    @override
    async def _send(self, reply: Reply, writer: StreamWriter) -> None:
        is_whole = not self.requests[-1].get("stream") and reply.status == 200
        if not is_whole or reply.hangs or reply.breaks:
            await super()._send(reply, writer)
            return
        body = orjson.dumps(_whole(reply.chunks))
        head = f"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()

    @property
    def conversations(self) -> list[list[ModelMessage]]:
        """The conversation of each request."""
        return [_conversation(request) for request in self.requests]


@asynccontextmanager
async def chat_model(script: Script) -> AsyncIterator[ChatModel]:
    """Serve a model for the length of a block."""
    async with serving(ChatModel(script)) as model:
        model.url += "/v1"
        yield model


def _reply(output: ModelOutput) -> Reply:
    if isinstance(output, Refuses):
        return Reply(status=output.status, headers={"retry-after": "0"})
    pieces: list[Json] = [{"role": "assistant", "content": piece} for piece in output.pieces]
    for index, (name, tool, arguments) in enumerate(output.calls):
        text = orjson.dumps(arguments).decode()
        pieces.append(call(index, id=name, name=tool))
        pieces += [call(index, arguments=text[:3]), call(index, arguments=text[3:])]
    if output.cut or output.hangs:
        return Reply([chunk(piece) for piece in pieces], breaks=output.cut, hangs=output.hangs)
    finish = "tool_calls" if output.calls else "stop"
    return Reply([*deltas(*pieces, finish=finish), usage(10, 5)])


def _whole(chunks: list[Json]) -> Json:
    """Return the answer whose chunks these are, as who asks for no stream gets it."""
    spoken = [choice for each in chunks for choice in each["choices"]]
    message: Json = {"role": "assistant", "content": None}
    called = list[Json]()
    for delta in (choice["delta"] for choice in spoken):
        if text := delta.get("content"):
            message["content"] = (message["content"] or "") + text
        for piece in delta.get("tool_calls") or ():
            if "id" in piece:
                called.append({**piece, "function": {**piece["function"]}})
            else:
                called[-1]["function"]["arguments"] += piece["function"]["arguments"]
    choice = {"index": 0, "message": {**message, **({"tool_calls": called} if called else {})}}
    choice["finish_reason"] = spoken[-1]["finish_reason"]
    return {**chunks[-1], "object": "chat.completion", "choices": [choice]}


def _conversation(request: Json) -> list[ModelMessage]:
    return [_message(m) for m in request["messages"] if m["role"] not in {"system", "developer"}]


def _message(message: Json) -> ModelMessage:
    messages, content = ModelMessage(message["role"]), message.get("content")
    messages.answers = message.get("tool_call_id", "")
    for called in message.get("tool_calls") or ():
        function = called["function"]
        messages.calls.append((function["name"], orjson.loads(function["arguments"])))
    if not isinstance(content, list):
        messages.text = content or ""
        return messages
    for part in content:
        if part["type"] == "text":
            messages.text += part["text"]
        elif part["type"] == "image_url":
            url = part["image_url"]["url"]
            inline = url.startswith("data:")
            messages.images.append(b64decode(url.partition("base64,")[2]) if inline else url)
    return messages
