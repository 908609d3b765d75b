"""How many runs a second workers get done whose agents wait, as they do for a model."""

import asyncio
import time
from urllib.parse import urlsplit

import orjson

from tests.benchmarks.bindings import REST
from tests.benchmarks.http_client import Connection
from tests.support.stack import Stack

_ORDER = "2 1000"
"""Two numbers, a second between them."""
_WAITING = 1.25
"""Clients for each run that there is room for, so that some always wait."""


async def runs_per_second(stack: Stack, at_once: int, rounds: int) -> float:
    """Return the runs/s of workers that work on `at_once` runs, over `rounds` times as many."""
    where = urlsplit(stack.gateways[0])
    clients = [
        Connection(where.hostname or "", where.port or 80) for _ in range(round(at_once * _WAITING))
    ]
    try:
        return await _rate(clients, where.netloc, at_once * rounds)
    finally:
        for client in clients:
            client.close()


async def _rate(clients: list[Connection], host: str, runs: int) -> float:
    left = iter(range(runs))

    async def work(client: Connection) -> None:
        for _ in left:
            await _complete(client, host, _ORDER)

    # Connections are opened before the clock starts.
    await asyncio.gather(*(_complete(client, host, "1") for client in clients))
    begun = time.perf_counter()
    await asyncio.gather(*map(work, clients))
    return runs / (time.perf_counter() - begun)


async def _complete(client: Connection, host: str, order: str) -> None:
    exchange = await client.ask(REST.awaited(host, "/v1/agents/counter", order))
    state = REST.result(orjson.loads(exchange.body))["task"]["status"]["state"]
    assert state == "TASK_STATE_COMPLETED", exchange.body
