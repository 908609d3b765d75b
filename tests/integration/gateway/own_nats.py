"""A gateway and a scripted fleet on a NATS server of their own, which may freeze and die."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc.aio
import httpx

from headrace.jetstream.connection import Bus
from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.settings import BusSettings
from headrace_gateway.timing import TIMING, GatewayTiming
from tests.integration.gateway.scripts import AGENTS
from tests.support.plain_http import KEEP_ALL, NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import NatsProcess

_TASK = re.compile(r"\d+-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OwnNats:
    """All of it, and clients of the gateway."""

    server: NatsProcess
    fleet: ScriptedFleet
    gateway: AsyncExitStack
    """Closing it stops the gateway."""
    url: str
    http: httpx.AsyncClient
    channel: grpc.aio.Channel

    @property
    def worked_on(self) -> list[str]:
        """The messages that work was begun on."""
        return [text_of(run.message["parts"]) for run in self.fleet.runs]


@asynccontextmanager
async def own_nats(
    folder: Path, append_timeout: float, timing: GatewayTiming = TIMING
) -> AsyncIterator[OwnNats]:
    """Yield all of it, at work; the server's data lie in `folder`."""
    server = NatsProcess(folder)
    settings = own_settings(server.url, append_timeout=append_timeout)
    with server:
        bus = Bus(BusSettings.model_validate(settings.model_dump()))
        await bus.connect("fleet")
        fleet = await ScriptedFleet(bus, AGENTS).start()
        async with AsyncExitStack() as gateway, AsyncExitStack() as clients:
            url = await gateway.enter_async_context(running(settings, timing=timing))
            headers = {"A2A-Version": "1.0"}
            http = await clients.enter_async_context(
                httpx.AsyncClient(
                    base_url=url, headers=headers, timeout=120, limits=KEEP_ALL, verify=NO_TLS
                )
            )
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}")
            await clients.enter_async_context(channel)
            yield OwnNats(server, fleet, gateway, url, http, channel)
            server.thaw()
        await fleet.stop()
        await bus.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client was told of its request by a gateway that may not know what came of it."""

    status: int
    accepted: bool
    again: bool = False
    """Whether it was told to send again."""
    task: str = ""
    """The task that a refusal names."""

    @classmethod
    def of_response(cls, response: httpx.Response) -> Self:
        """Read a response, which may be JSON-RPC's."""
        if response.is_success and '"error"' not in response.text:
            return cls(response.status_code, accepted=True)
        again = "retry-after" in response.headers
        return cls(response.status_code, accepted=False, again=again, task=task_in(response.text))

    @classmethod
    def of_frame(cls, frame: Json) -> Self:
        """Read the last frame that a WebSocket got for a request."""
        if "error" not in frame:
            return cls(httpx.codes.OK, accepted=True)
        output = json.dumps(frame)
        again = "retryDelay" in output
        return cls(frame["error"]["code"], accepted=False, again=again, task=task_in(output))


def task_in(text: str) -> str:
    """Return the first task's id in an answer, or nothing."""
    found = _TASK.search(text)
    return found.group() if found else ""
