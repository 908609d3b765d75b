"""How long nobody works on a task whose worker was killed."""

import asyncio
import random
import re
import time
from functools import partial

import httpx

from tests.support.event_stream import Json, frames
from tests.support.plain_a2a import PlainAgent
from tests.support.stack import Stack
from tests.support.waiting import until

_ORDER = "6000 10"
_BEFORE = (20, 320)
"""Events, at most 100 a second, after which the worker is killed: anywhere between heartbeats."""
_TIMEOUT = 90.0


async def failovers(stack: Stack, kills: int) -> list[float]:
    """Return, for each of `kills`, the seconds from the kill to the next attempt's first event."""
    chance = random.Random(kills)
    async with httpx.AsyncClient() as http:
        return [await _failover(stack, http, chance.randrange(*_BEFORE)) for _ in range(kills)]


async def _failover(stack: Stack, http: httpx.AsyncClient, before: int) -> float:
    agent = PlainAgent(http, stack.gateways[0], "counter")
    async with agent.stream(_ORDER) as response, asyncio.timeout(_TIMEOUT):
        events = frames(response)
        task = str((await anext(events)).event["task"]["id"])
        worker = _begun((await anext(events)).event)["headrace.worker"]
        for _ in range(before):
            await anext(events)
        index = _index_of(stack, worker)
        starts = _starts(stack, index)
        stack.kill("worker", index)
        killed = time.perf_counter()
        while "headrace.attempt" not in _begun((await anext(events)).event):
            pass
        taken = time.perf_counter() - killed
    await agent.cancel(task)
    again = partial(
        until, lambda: _starts(stack, index) > starts, f"worker-{index} serves again", _TIMEOUT
    )
    await asyncio.to_thread(again)
    return taken


def _begun(event: Json) -> Json:
    metadata: Json = event.get("statusUpdate", {}).get("metadata", {})
    return metadata


def _index_of(stack: Stack, worker: str) -> int:
    output = re.search(rf"^worker-(\d+) .* {worker} serves ", stack.log(), re.MULTILINE)
    assert output is not None, f"no line of {worker}'s"
    return int(output[1])


def _starts(stack: Stack, index: int) -> int:
    """Return how often the worker has begun to serve."""
    return len(re.findall(rf"^worker-{index} .* serves ", stack.log(), re.MULTILINE))
