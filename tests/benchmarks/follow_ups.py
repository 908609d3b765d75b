"""What a message to a task that waits for its user costs, beside one that begins a task."""

import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.compose_file import ROOT
from tests.support.plain_a2a import PlainAgent, message
from tests.support.stack import Stack

_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds, the median: one at a time, and with 32 under way."""

    first_idle: float
    follow_up_idle: float
    first_busy: float
    follow_up_busy: float


async def follow_ups(folder: Path, count: int) -> Costs:
    """Return what `count` first messages and as many answers to a question take."""
    stack = Stack(
        folder,
        gateways=1,
        workers=1,
        task_states=1,
        agents="tests.support.agents:agents",
        environment={"PYTHONPATH": str(ROOT)},
    )
    with stack:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as http:
            agent = PlainAgent(http, stack.gateways[0], "asker")
            await _each(agent, 1, 10)
            idle, busy = await _each(agent, 1, count), await _each(agent, _AT_A_TIME, count)
    return Costs(*map(_milliseconds, (*idle, *busy)))


async def _each(agent: PlainAgent, clients: int, count: int) -> tuple[list[float], list[float]]:
    """Return the seconds that each question, and each answer to it, took."""
    left = iter(range(count))
    firsts, seconds = list[float](), list[float]()

    async def work() -> None:
        for _ in left:
            task = await _asked(agent, firsts, "INPUT_REQUIRED")
            await _asked(agent, seconds, "COMPLETED", taskId=task)

    await asyncio.gather(*(work() for _ in range(clients)))
    return firsts, seconds


async def _asked(agent: PlainAgent, took: list[float], state: str, **fields: str) -> str:
    begun = time.perf_counter()
    answer = await agent.post("message:send", {"message": message("Ann", **fields)})
    took.append(time.perf_counter() - begun)
    task = answer.json()["task"]
    assert task["status"]["state"] == f"TASK_STATE_{state}", answer.text
    return str(task["id"])


def _milliseconds(times: list[float]) -> float:
    return statistics.median(times) * 1000
