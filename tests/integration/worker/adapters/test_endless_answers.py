"""What an outside agent answers is limited, whatever it answers; compressed, it has no limit."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.adapters import ag_ui_agent
from headrace.adapters.event_stream import LARGEST
from tests.integration.worker.conftest import Working
from tests.support.asgi_server import asgi_server
from tests.support.log_reading import folded, state
from tests.support.scripted_executor import outside_agent
from tests.support.task_submitter import TaskSubmitter

PIECE = 1024 * 1024


class EndlessAgent:
    """An agent that sends four times as much as is read, in place of the answer to `to`."""

    def __init__(self, to: str) -> None:
        self.to, self.sent = to, 0
        self.app = Starlette(
            routes=[
                Route("/.well-known/agent-card.json", self.card),
                Route("/", self.answer, methods=["POST"]),
            ]
        )

    def card(self, request: Request) -> Response:
        if self.to == "card":
            return self._endless(b'{"name": "', "application/json")
        url = str(request.base_url)
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        names = {"name": "Endless", "description": "Sends.", "version": "1"}
        modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
        card = {"capabilities": {"streaming": self.to == "stream"}, "skills": []}
        return JSONResponse({**names, **modes, **card, "supportedInterfaces": [interface]})

    def answer(self, _: Request) -> Response:
        if self.to == "stream":
            return self._endless(b'data: {"result": "', "text/event-stream")
        if self.to == "refusal":
            return self._endless(b"x", "text/event-stream", 400)
        if self.to == "compressed run":
            run = {"threadId": "t", "runId": "r"}
            kinds = ("RUN_STARTED", "RUN_FINISHED")
            frames = [f"data: {json.dumps({'type': kind, **run})}\n\n" for kind in kinds]
            return self._packed("".join(frames), "text/event-stream")
        if self.to == "compressed":
            message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
            body = {"jsonrpc": "2.0", "id": 1, "result": {"message": message}}
            return self._packed(json.dumps(body), "application/json")
        return self._endless(b'{"result": "', "application/json")

    def _packed(self, body: str, kind: str) -> Response:
        headers = {"Content-Encoding": "gzip", "Content-Type": kind}
        return Response(gzip.compress(body.encode()), headers=headers)

    def _endless(self, begin: bytes, kind: str, status: int = 200) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield begin
            while self.sent < 4 * LARGEST:
                self.sent += PIECE
                yield b"x" * PIECE
                await asyncio.sleep(0)  # A disconnect is noticed between two turns of the loop.

        return StreamingResponse(pieces(), status, media_type=kind)


@pytest.mark.parametrize("to", ["stream", "message", "card", "refusal", "compressed"])
async def test_a_remote_agents_answer_is_not_read_beyond_its_limit(
    submitter: TaskSubmitter, working: Working, to: str
) -> None:
    endless = EndlessAgent(to)
    async with asgi_server(endless.app) as url:
        made = await outside_agent(url, binding="JSONRPC", card_timeout=0)
        async with working(made):
            done = await folded(await submitter.start("outside", "x"))
    assert state(done) == "FAILED"
    assert endless.sent < 2 * LARGEST


_AG_UI = [("stream", "FAILED"), ("refusal", "REJECTED"), ("compressed run", "FAILED")]


@pytest.mark.parametrize(("to", "ended"), _AG_UI)
async def test_an_ag_ui_agents_answer_is_not_read_beyond_its_limit(
    submitter: TaskSubmitter, working: Working, to: str, ended: str
) -> None:
    endless = EndlessAgent(to)
    async with (
        asgi_server(endless.app) as url,
        working(ag_ui_agent(url, name="endless", memory="task")),
    ):
        done = await folded(await submitter.start("endless", "x"))
    assert state(done) == ended
    assert endless.sent < 2 * LARGEST
