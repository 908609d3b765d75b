"""A gateway that stops while a run goes on."""

import asyncio

import httpx

from headrace.jetstream.connection import Bus
from headrace_gateway.settings import GatewaySettings
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import run_input, run_of
from tests.support.agui.runs import running as streaming
from tests.support.agui.scripts import AGENTS
from tests.support.event_stream import Frame, frames
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports


async def test_a_run_states_that_its_stream_ended_early(settings: GatewaySettings) -> None:
    settings = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    bus = Bus(settings)
    await bus.connect("fleet")
    fleet = await ScriptedFleet(bus, AGENTS).start()
    body, received, stopping = run_input(), list[Frame](), asyncio.Event()

    async def watch(url: str) -> None:
        async with (
            httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
            streaming(http, "patient", body) as response,
        ):
            async for frame in frames(response):
                received.append(frame)
                if frame.json.get("delta") == "a":
                    stopping.set()

    async with running(settings) as url:
        watching = asyncio.create_task(watch(url))
        await stopping.wait()
    await asyncio.wait_for(watching, 60)
    (await run_of(fleet)).go_on.set()
    await fleet.stop()
    await bus.close()

    assert Client(body["messages"]).take_all([frame.json for frame in received]).ended
    assert (received[-1].json["type"], received[-1].json["code"]) == ("RUN_ERROR", "disconnected")
