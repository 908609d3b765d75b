"""Any process dies at any moment; every task ends, and every client has seen all of it."""

import asyncio
import os
import random
from contextlib import suppress

import httpx
import pytest

from headrace_cli.dev_file import Role
from tests.support.event_stream import Frame, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.stored_log import lines_of

COUNT = 40
ORDER = f"{COUNT} 100"
ROLES: tuple[Role, ...] = ("gateway", "worker", "task-state", "nats", "redis")
ENDED = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}


class Client:
    """Starts one task and follows it to its end, through whichever gateway answers."""

    def __init__(self, http: httpx.AsyncClient, fleet: Fleet, chance: random.Random) -> None:
        """Choose gateways by `chance`."""
        self.seen: list[Frame] = []
        self._http, self._chance = http, chance
        self._gateways = fleet.gateways

    @property
    def task(self) -> str:
        """The task's id."""
        return str(self.seen[0].event["task"]["id"])

    async def follow(self) -> None:
        """Return when the task has ended."""
        while not (self.seen and self.seen[-1].state in ENDED):
            with suppress(httpx.TransportError, ConnectionError, AssertionError):
                await self._connect()
            await asyncio.sleep(0.2)

    async def _connect(self) -> None:
        agent = PlainAgent(self._http, self._chance.choice(self._gateways), "counter")
        opened = agent.subscribe(self.task, self.seen[-1].id) if self.seen else agent.stream(ORDER)
        async with opened as response:
            async for frame in frames(response):
                self.seen.append(frame)


async def kill_at_random(fleet: Fleet, chance: random.Random, seconds: float) -> list[str]:
    """Kill a process about every second; return whose."""
    killed = list[str]()
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        role = chance.choice(ROLES)
        index = chance.randrange(len(fleet.stack.pids(role)) or 1)
        with suppress(ProcessLookupError, IndexError):  # It is dead already, or does not belong.
            fleet.stack.kill(role, index)
            killed.append(f"{role}-{index}")
    return killed


async def check(fleet: Fleet, http: httpx.AsyncClient, clients: int, seconds: float) -> None:
    chance, calm, followed = random.Random(20), asyncio.Event(), list[Client]()

    async def ask_on() -> None:
        while not calm.is_set():
            followed.append(Client(http, fleet, chance))
            await followed[-1].follow()

    async with asyncio.timeout(seconds + 60), asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(ask_on())
        killed = await kill_at_random(fleet, chance, seconds)
        calm.set()
    assert len(killed) > seconds / 3
    await fleet.until_whole()
    for client in followed:
        await check_one(fleet, http, client)


async def check_one(fleet: Fleet, http: httpx.AsyncClient, client: Client) -> None:
    assert client.seen[-1].state == "COMPLETED"
    data = [frame.raw.partition(b"data: ")[2] for frame in client.seen]
    assert data == await lines_of(fleet.nats_url, "counter", client.task)
    found = await PlainAgent(http, fleet.gateways[0], "counter").get(client.task)
    [artifact] = found.json()["artifacts"]
    text = "".join(part["text"] for part in artifact["parts"])
    assert text == "".join(f"{n} " for n in range(1, COUNT + 1))


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_tasks_end_and_nothing_is_missed_while_processes_die(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    if "HEADRACE_SOAK" in os.environ:
        await check(fleet, http, clients=60, seconds=240)
    else:
        await check(fleet, http, clients=10, seconds=8)
