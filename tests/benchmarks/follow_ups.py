"""What a message to a task that waits for its user costs, beside one that begins a task."""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from tests.benchmarks.bindings import REST, message, request
from tests.benchmarks.http_client import Connection
from tests.support.stack import Stack

_AT_A_TIME = 32
_WARM_UPS = 4 * _AT_A_TIME
_BASE = "/v1/agents/asker"


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds, the median: one at a time, and with 32 under way."""

    first_idle: float
    follow_up_idle: float
    first_busy: float
    follow_up_busy: float


async def follow_ups(stack: Stack, count: int) -> Costs:
    """Return what `count` first messages and as many answers to a question take."""
    where = urlsplit(stack.gateways[0])
    clients = [Connection(where.hostname or "", where.port or 80) for _ in range(_AT_A_TIME)]
    try:
        await _each(clients, where.netloc, _WARM_UPS)
        idle = await _each(clients[:1], where.netloc, count)
        busy = await _each(clients, where.netloc, count)
    finally:
        for client in clients:
            client.close()
    return Costs(*map(_milliseconds, (*idle, *busy)))


async def _each(
    clients: Sequence[Connection], host: str, count: int
) -> tuple[list[float], list[float]]:
    """Return the seconds that each first message, and each answer to the question, took."""
    left = iter(range(count))
    firsts, seconds = list[float](), list[float]()

    async def work(client: Connection) -> None:
        for _ in left:
            task = await _asked(client, host, firsts, "INPUT_REQUIRED")
            await _asked(client, host, seconds, "COMPLETED", taskId=task)

    await asyncio.gather(*map(work, clients))
    return firsts, seconds


async def _asked(
    client: Connection, host: str, took: list[float], state: str, **fields: str
) -> str:
    params = message("Ann")
    params["message"] |= fields
    exchange = await client.ask(request(host, f"{_BASE}{REST.send_path}", params))
    took.append(exchange.seconds)
    task = REST.result(orjson.loads(exchange.body))["task"]
    assert task["status"]["state"] == f"TASK_STATE_{state}", exchange.body
    return str(task["id"])


def _milliseconds(times: list[float]) -> float:
    return statistics.median(times) * 1000
