"""A second Headrace that serves an outside agent."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace import Agent, Retry
from headrace.adapters import remote_agent
from headrace.directory import AgentCard
from headrace.jetstream.connection import Bus
from headrace.model import events, parts
from headrace.model.events import INTERRUPTS
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from tests.support.cutting_proxy import CuttingProxy
from tests.support.running_gateway import running
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.servers import ports


async def patient(run: Run) -> None:
    """Think and begin, wait for the test, go on and end."""
    think = parts.thinking_part("Hm. ", "think-1", end=True)
    content = {"messageId": "think-1", "role": "ROLE_AGENT", "parts": [think]}
    await run.append([events.status_update(run.key.task, run.context, WORKING, content)])
    await run.chunk("a", append=False)
    await run.chunk("b")
    await run.go_on.wait()
    await run.chunk("c")
    await run.status(COMPLETED)


async def ask(run: Run) -> None:
    """Ask once, then say what was answered."""
    if run.run == 1:
        interrupts = {INTERRUPTS: [{"id": "int-1", "reason": "name"}]}
        draft = run.status_draft(INPUT_REQUIRED, "Your name?", metadata=interrupts)
        await run.append([draft], INPUT_REQUIRED)
    else:
        await run.chunk(parts.text_of(run.message["parts"]), append=False)
        await run.status(COMPLETED)


@dataclass
class OtherHeadrace:
    """Another Headrace, behind a proxy."""

    fleet: ScriptedFleet
    proxy: CuttingProxy
    grpc: CuttingProxy
    """Before its gRPC port."""

    def url(self, name: str) -> str:
        """Return where its agent of that name is."""
        return f"{self.proxy.url}/v1/agents/{name}"

    async def agent(self, name: str, binding: str) -> Agent:
        return await asyncio.to_thread(
            remote_agent,
            self.url(name),
            binding=binding,
            retry=Retry(backoff=0.0),
            reconnecting=30.0,
        )


@asynccontextmanager
async def another_headrace(nats_url: str) -> AsyncIterator[OtherHeadrace]:
    """Serve a fleet of scripts with a gateway of its own, which shares nothing with ours."""
    name, grpc_port = f"other{secrets.token_hex(4)}", ports.pick()
    async with CuttingProxy(grpc_port) as by_grpc:
        settings = GatewaySettings(
            nats_url=nats_url,
            prefix=name,
            stream_prefix=name,
            http_port=ports.pick(),
            grpc_port=grpc_port,
            public_grpc=by_grpc.url.removeprefix("http://"),
            startup_timeout=60,
        )
        agents = {
            "patient": (AgentCard(name="patient", description="Waits."), patient),
            "ask": (AgentCard(name="ask"), ask),
        }
        async with (
            _fleet(settings, agents) as fleet,
            running(settings),
            CuttingProxy(settings.http_port) as proxy,
        ):
            yield OtherHeadrace(fleet, proxy, by_grpc)


@asynccontextmanager
async def _fleet(settings: GatewaySettings, agents: object) -> AsyncIterator[ScriptedFleet]:
    bus = Bus(BusSettings.model_validate(settings.model_dump()))
    await bus.connect("other")
    fleet = await ScriptedFleet(bus, agents).start()  # type: ignore[arg-type]  # its scripts
    try:
        yield fleet
    finally:
        await fleet.stop()
        await bus.close()
