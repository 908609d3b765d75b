"""An outside agent that does not do as A2A says."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.integration.worker.conftest import Working
from tests.integration.worker.doors.reading import folded, state
from tests.support.desk import Desk
from tests.support.servers import ports
from tests.support.town_crier import crier

type Json = dict[str, object]


class Odd:
    """Answers each request for a stream with what a test says, and ends it."""

    def __init__(self, *answers: Sequence[Json | str]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    async def stream(self, request: Request) -> Response:
        asked = await request.json()
        self.asked.append(asked["method"])
        if asked["method"] not in {"SendStreamingMessage", "SubscribeToTask"}:
            result = {"id": "odd", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        # The last one again and again.
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        frames = [
            one
            if isinstance(one, str)
            else json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": one})
            for one in said
        ]
        body = "".join(f"data: {frame}\n\n" for frame in frames)
        return Response(body, media_type="text/event-stream")


@asynccontextmanager
async def serving(odd: Odd) -> AsyncIterator[str]:
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
        Route("/rpc", odd.stream, methods=["POST"]),
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


async def test_an_agent_whose_streams_end_at_once_is_not_asked_all_the_time(
    desk: Desk, working: Working
) -> None:
    working_still = [at("WORKING")]
    odd = Odd(*[working_still] * 6, [at("COMPLETED")])
    async with serving(odd) as url:
        agent = await crier(url, binding="JSONRPC", poll=0.2)
        async with working(agent):
            begun = time.monotonic()
            done = await folded(await desk.start("crier", "x"))
    assert state(done) == "COMPLETED"
    assert len(odd.asked) == 7
    # Six pauses, less what the clocks differ by.
    assert time.monotonic() - begun > 1.0


@pytest.mark.parametrize(
    "said",
    [
        ["no JSON"],
        ["[]"],
        [{"what": 7}],
        [{}],
        [{"artifactUpdate": {"taskId": "odd", "contextId": "c", "artifact": {"parts": [{}]}}}],
        [at("WORKING"), {"artifactUpdate": {"taskId": "odd", "artifact": {"artifactId": "a"}}}],
        [at("WORKING"), {"statusUpdate": {"taskId": "odd", "status": {"state": "NONSENSE"}}}],
        [at("COMPLETED"), at("WORKING"), at("FAILED")],
        [at("WORKING"), {"statusUpdate": {"taskId": "odd", "metadata": {"headrace.child": 7}}}],
    ],
    ids=str,
)
async def test_whatever_it_says_the_task_ends_and_the_worker_goes_on(
    desk: Desk, working: Working, said: list[Json | str]
) -> None:
    odd = Odd(said, [at("COMPLETED")])
    async with serving(odd) as url:
        agent = await crier(url, binding="JSONRPC", max_attempts=2)
        async with working(agent):
            done = await folded(await desk.start("crier", "x"))
            again = await folded(await desk.start("crier", "y"))
    assert state(done) in {"COMPLETED", "FAILED", "REJECTED"}
    assert state(again) == "COMPLETED"
