"""Outside agents with scripted, unusual JSON-RPC responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.servers import ports

type Json = dict[str, object]


class RespondingAgent(Protocol):
    """An agent's endpoint."""

    async def stream(self, request: Request) -> Response:
        """Answer a request."""


class ScriptedAgent:
    """Answers each request for a stream with what a test says, and ends it."""

    def __init__(self, *answers: Sequence[Json | str]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    async def stream(self, request: Request) -> Response:
        requests = await request.json()
        self.asked.append(requests["method"])
        if requests["method"] not in {"SendStreamingMessage", "SubscribeToTask"}:
            result = {"id": "odd", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}}
            return JSONResponse({"jsonrpc": "2.0", "id": requests["id"], "result": result})
        # The last one again and again.
        output = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        frames = [
            one
            if isinstance(one, str)
            else json.dumps(
                {"jsonrpc": "2.0", "id": requests["id"], "result": one}, ensure_ascii=False
            )
            for one in output
        ]
        body = "".join(f"data: {frame}\n\n" for frame in frames)
        return Response(body, media_type="text/event-stream")


class BurstingAgent:
    """Says four events in one write, and the end when it is asked again: behind a cursor."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        """The cursors of the streams that were opened."""
        self._events: list[Json] = [
            at("WORKING"),
            *(_chunk(text, append=text != "a") for text in "abc"),
        ]

    async def stream(self, request: Request) -> Response:
        requests = await request.json()
        if requests["method"] not in {"SendStreamingMessage", "SubscribeToTask"}:
            return JSONResponse({"jsonrpc": "2.0", "id": requests["id"], "result": at("WORKING")})
        last = request.headers.get("last-event-id")
        self.asked.append(last)
        return StreamingResponse(self._said(requests["id"], last), media_type="text/event-stream")

    async def _said(self, request: str, last: str | None) -> AsyncIterator[bytes]:
        since = int(last or 0)
        events = self._events[since:]
        if len(self.asked) > 1:
            events.append({"statusUpdate": {**_IDS, "status": {"state": "TASK_STATE_COMPLETED"}}})
        burst = b""
        for number, event in enumerate(events, since + 1):
            output = json.dumps({"jsonrpc": "2.0", "id": request, "result": event})
            burst += f"id: {number}\ndata: {output}\n\n".encode()
        yield burst
        if len(self.asked) == 1:
            await asyncio.Event().wait()


_IDS = {"taskId": "odd", "contextId": "c"}


def _chunk(text: str, *, append: bool) -> Json:
    artifact = {"artifactId": "answer", "parts": [{"text": text}]}
    return {"artifactUpdate": {**_IDS, "artifact": artifact, "append": append}}


@asynccontextmanager
async def serving(scripted: RespondingAgent) -> AsyncIterator[str]:
    port = ports.pick()
    url = f"http://127.0.0.1:{port}"
    card = {
        "name": "Odd",
        "description": "Odd.",
        "version": "1",
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
        "supportedInterfaces": [
            {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    }

    async def shown(_: Request) -> Response:
        return JSONResponse(card)

    routes = [
        Route("/.well-known/agent-card.json", shown),
        Route("/rpc", scripted.stream, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    # Without its handlers of signals, which are this process's own.
    task = asyncio.create_task(server._serve())
    try:
        while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody
            await asyncio.sleep(0.01)
        yield url
    finally:
        server.should_exit = server.force_exit = True
        await task


def at(state: str) -> Json:
    """Return the task in a state."""
    return {"task": {"id": "odd", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}
