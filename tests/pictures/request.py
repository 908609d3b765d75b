"""Records the way of a request through a fleet, and of a client that resumes elsewhere."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import nats

from headrace_cli.dev.readiness import until_ready
from tests.pictures.watch import Step, Watch
from tests.support.event_stream import Frame, frames
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.stack import Stack

READ = 4
"""Events that the client reads before it leaves, where it resumes."""
LEAVES = "disconnects"
_AWAY = 0.25
_VIEW = 0.5
"""Seconds after a stream's end in which task state gets the last entry."""


class Caller:
    """A client of a stack with two gateways that notes what it sends and receives."""

    def __init__(self, stack: Stack, http: httpx.AsyncClient, watch: Watch) -> None:
        """Send to `stack`."""
        self._agents = [PlainAgent(http, url, "repeat") for url in stack.gateways]
        self._watch = watch
        self.task = ""

    async def send(self) -> None:
        """Send a message and read its stream."""
        self._watch.note("client", "gateway 1", "POST message:stream")
        async with self._agents[0].stream("Hello, world") as response:
            async for frame in frames(response):
                self._note(frame, "gateway 1")

    async def resume(self) -> None:
        """Send a message, leave in the middle of its stream, and resume it elsewhere."""
        self._watch.note("client", "gateway 1", "POST message:stream")
        async with self._agents[0].stream("one two three four five") as response:
            async for frame in frames(response):
                self._note(frame, "gateway 1")
                if frame.generation == READ:
                    break
        self._watch.note("client", "gateway 1", LEAVES)
        await asyncio.sleep(_AWAY)
        self._watch.note("client", "gateway 2", f"GET :subscribe, Last-Event-ID …:{READ}")
        async with self._agents[1].subscribe(self.task, frame.id) as response:
            async for frame in frames(response):
                self._note(frame, "gateway 2")

    def _note(self, frame: Frame, gateway: str) -> None:
        self.task = self.task or frame.event["task"]["id"]
        self._watch.note(gateway, "client", f"event {frame.generation}")


async def record(stack: Stack, act: Callable[[Caller], Awaitable[None]]) -> list[Step]:
    """Return the steps of what `act` does. A first time warms the stack up."""
    await until_ready(stack.gateways, with_agents=True, timeout=60)
    await _recorded(stack, act)
    return list(_numbered(await _recorded(stack, act)))


async def _recorded(stack: Stack, act: Callable[[Caller], Awaitable[None]]) -> list[Step]:
    async with _watched(stack) as (http, watch):
        caller = Caller(stack, http, watch)
        await act(caller)
        await asyncio.sleep(_VIEW)
        return watch.steps(caller.task)


def _numbered(steps: list[Step]) -> Iterator[Step]:
    """Yield the steps with the number of the gateway that the client is connected to.

    Without a client there is nobody whom a gateway passes events on to.
    """
    gateway: str | None = None
    for step in steps:
        if step.sender == "client":
            gateway = None if step.what == LEAVES else step.receiver
        parties = [gateway if one == "gateway" else one for one in (step.sender, step.receiver)]
        if None not in parties:
            yield replace(step, sender=str(parties[0]), receiver=str(parties[1]))


@asynccontextmanager
async def _watched(stack: Stack) -> AsyncIterator[tuple[httpx.AsyncClient, Watch]]:
    bus = await nats.connect(stack.dev()["nats_url"])
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        watch = Watch(bus)
        await watch.start()
        yield http, watch
    await bus.close()


def save(steps: list[Step], path: Path) -> None:
    """Write the steps as JSON."""
    path.write_text(json.dumps([asdict(step) for step in steps], indent=1) + "\n")


def load(path: Path) -> list[Step]:
    """Return the steps in a file."""
    return [Step(**step) for step in json.loads(path.read_text())]
