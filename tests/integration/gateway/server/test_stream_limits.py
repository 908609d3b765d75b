"""How many streams may be open: in all, per owner, over every protocol."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Refusal, Rest, Rpc, Stream, Talk, message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually


@asynccontextmanager
async def limited(settings: GatewaySettings, **limits: int) -> AsyncIterator[httpx.AsyncClient]:
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0, **limits})
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        yield http


async def refusals(http: httpx.AsyncClient, task: str) -> list[Refusal]:
    """Return how each binding's streams are refused."""
    return [
        await talk.to("patient").refused(operation, params)
        for talk in (Rest(http), Rpc(http))
        for operation, params in (
            ("SendStreamingMessage", message()),
            ("SubscribeToTask", {"id": task}),
        )
    ]


async def opened(talk: Talk, stack: AsyncExitStack) -> Stream:
    """Return a stream that stays open."""
    agent = talk.to("patient")
    return await stack.enter_async_context(agent.stream("SendStreamingMessage", message()))


@pytest.mark.parametrize(
    ("limit", "status", "reason"),
    [("max_streams", 503, "UNAVAILABLE"), ("max_streams_per_owner", 429, "TOO_MANY_STREAMS")],
)
async def test_streams_beyond_the_limit_are_refused_before_they_begin(
    settings: GatewaySettings, fleet: ScriptedFleet, limit: str, status: int, reason: str
) -> None:
    async with limited(settings, **{limit: 2}) as http, AsyncExitStack() as stack:
        stream, _ = [await opened(talk, stack) for talk in (Rest(http), Rpc(http))]
        frames = stream.frames()
        task = (await anext(frames))[1]["task"]["id"]
        for refusal in await refusals(http, task):
            assert (refusal.status, refusal.reason) == (status, reason)
            assert int(refusal.headers["retry-after"]) > 0
        run: Json = {"threadId": str(uuid.uuid4()), "runId": "r", "messages": [], "tools": []}
        output = {"id": "m", "role": "user", "content": "hi"}
        run |= {"messages": [output], "state": {}, "context": [], "forwardedProps": {}}
        response = await http.post("/v1/agents/patient/ag-ui", json=run)
        assert response.status_code == status, response.text
        assert int(response.headers["retry-after"]) > 0
        # What is no stream is answered as before.
        assert (await Rest(http, "patient").call("GetTask", {"id": task}))["id"] == task
        assert (await Rest(http).call("SendMessage", message()))["task"]
    patient = [run for run in fleet.runs if run.key.agent == "patient"]
    assert len(patient) == 2


async def test_a_place_is_free_again_when_its_stream_ends_or_its_client_goes(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with limited(settings, max_streams=1) as http:
        talk = Rest(http)
        for _ in range(3):
            async with talk.stream("SendStreamingMessage", message()) as stream:
                assert len(await stream.rest()) == 4
        await talk.refused("SubscribeToTask", {"id": "0-" + "a" * 32})
        async with AsyncExitStack() as stack:
            stream = await opened(talk, stack)
            frames = stream.frames()
            task = (await anext(frames))[1]["task"]["id"]
            assert (await talk.refused("SubscribeToTask", {"id": task})).status == 503

        async def is_free() -> bool:
            async with talk.open("SendStreamingMessage", message(), {}) as response:
                await response.aread()
                return response.is_success

        await eventually(is_free, "the client that went gave its place back")
    assert fleet.runs


async def test_many_at_once_do_not_slip_past_the_limit(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with limited(settings, max_streams=5) as http, AsyncExitStack() as stack:
        agent = Rest(http, "patient")

        async def status() -> int:
            opening = agent.open("SendStreamingMessage", message(), {})
            return (await stack.enter_async_context(opening)).status_code

        statuses = await asyncio.gather(*(status() for _ in range(20)))
        assert sorted(statuses) == [200] * 5 + [503] * 15

    async def five_work() -> bool:
        return len(fleet.runs) == 5

    await eventually(five_work, "the agent works on five")
