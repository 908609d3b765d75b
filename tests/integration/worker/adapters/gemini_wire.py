"""A model that speaks Gemini's wire format: ``streamGenerateContent``, as server-sent events."""

from asyncio import StreamWriter
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, override

import orjson

from headrace.model.events import Json
from tests.integration.worker.adapters.wire import ModelMessage, ModelOutput, Refuses, Script
from tests.support.chat_stub import ChatStub, Reply, serving

MODEL = "gemini-2.5-flash"


class GeminiModel(ChatStub):
    """Says what a script has it say."""

    path = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    last = b""
    whole_path = f"/v1beta/models/{MODEL}:generateContent"
    """Where answers come whole."""
    _is_whole = False

    def __init__(self, script: Script | Iterable[Reply]) -> None:
        """Say what `script` has it say; replies as they are."""
        if callable(script):
            super().__init__(lambda request: _reply(script(_conversation(request))))
        else:
            super().__init__(map(_reply, script))

    @override
    def _check(self, line: str) -> None:
        self._is_whole = line.startswith(f"POST {self.whole_path} ")
        if not self._is_whole:
            super()._check(line)

    @override
    async def _send(self, reply: Reply, writer: StreamWriter) -> None:
        if not (self._is_whole and reply.status == 200):
            await super()._send(reply, writer)
            return
        *_, ends = reply.chunks
        spoken = [each["candidates"][0]["content"]["parts"] for each in reply.chunks[:-1]]
        content = {"role": "model", "parts": [part for parts in spoken for part in parts]}
        candidate = {**ends["candidates"][0], "content": content}
        body = orjson.dumps({**ends, "candidates": [candidate]})
        head = f"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()

    @property
    def conversations(self) -> list[list[ModelMessage]]:
        """The conversation of each request."""
        return [_conversation(request) for request in self.requests]


@asynccontextmanager
async def gemini_model(script: Script | Iterable[Reply]) -> AsyncIterator[GeminiModel]:
    """Serve a model for the length of a block."""
    async with serving(GeminiModel(script)) as model:
        yield model


def _reply(output: ModelOutput | Reply) -> Reply:
    if isinstance(output, Reply):
        return output
    if isinstance(output, Refuses):
        return Reply(status=output.status)
    chunks = [chunk({"text": piece}) for piece in output.pieces]
    for name, tool, arguments in output.calls:
        chunks.append(chunk({"functionCall": {"id": name, "name": tool, "args": arguments}}))
    if not (output.cut or output.hangs):
        chunks.append(last())
    return Reply(chunks, breaks=output.cut, hangs=output.hangs)


def chunk(part: Json) -> Json:
    """Return one response of a stream."""
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "index": 0}], "modelVersion": MODEL}


def last() -> Json:
    """Return the response that ends a stream."""
    used = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    ends = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}
    return {"candidates": [{**ends, "index": 0}], "usageMetadata": used, "modelVersion": MODEL}


def _conversation(request: Json) -> list[ModelMessage]:
    return [messages for content in request["contents"] for messages in _messages(content)]


def _messages(content: Json) -> list[ModelMessage]:
    role = "assistant" if content["role"] == "model" else content["role"]
    received, results = ModelMessage(role), list[ModelMessage]()
    for part in content["parts"]:
        if (call := part.get("functionCall")) is not None:
            received.calls.append((call["name"], call.get("args") or {}))
        elif (result := part.get("functionResponse")) is not None:
            results.append(
                ModelMessage("tool", _result(result["response"]), answers=result.get("id", ""))
            )
        elif (blob := part.get("inlineData")) is not None:
            received.images.append(urlsafe_b64decode(blob["data"]))
        else:
            received.text += part.get("text", "")
    return results or [received]


def _result(response: Json) -> str:
    output: Any = response.get("result", response.get("error", response))
    return str(output)
