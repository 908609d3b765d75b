"""What the page on capacity states that tasks take in NATS and Redis is what they take."""

import re

import httpx

from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.architecture.tree import ROOT
from tests.support.event_stream import all_frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.stored_log import StoredMessage, read_log, subject_of
from tests.support.waiting import eventually

ROOM = 1.5
"""By what factor a size may differ: versions of servers, lengths of names and texts do."""

RECORD = 22 + 4 + 8
"""Bytes that NATS stores with each message that has headers: lengths, sequence, time, checksum."""


def stated(row: str) -> list[float]:
    """Return the sizes in a row of the page's table: bytes in NATS and Redis."""
    table = (ROOT / "docs" / "design" / "costs.md").read_text().partition("\n## Storage\n")[2]
    [line] = re.findall(rf"^\| {row}.*", table, re.MULTILINE)
    found = re.findall(r"([\d.]+) (KB|bytes)", line)
    return [float(size) * (1000 if unit == "KB" else 1) for size, unit in found]


def is_about(size: float, expected: float) -> bool:
    return expected / ROOM < size < expected * ROOM


def size_of(message: StoredMessage, task: str) -> int:
    """Return the bytes that the message takes in its stream."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in message.headers.items())
    stored = f"{subject_of('counter', task)}NATS/1.0\r\n{headers}\r\n".encode()
    return RECORD + len(stored) + len(b"\n".join(message.lines))


async def test_tasks_take_what_the_page_on_capacity_states(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "counter")
    in_nats, in_redis = stated("a short task")
    [token, _] = stated("a token that is appended alone")
    async with agent.stream("1 0") as response:
        begun = (await all_frames(response))[0].event["task"]
    short = await read_log(fleet.nats_url, "counter", begun["id"])

    redis = Connection(RedisSettings(redis_url=fleet.redis_url))
    try:
        keys = list[bytes]()

        async def are_there() -> bool:
            names = (begun["id"], begun["contextId"])
            found = await redis.ask(*(["KEYS", f"*{name}*"] for name in names))
            keys[:] = {key for some in found for key in some}
            return len(keys) == 4

        await eventually(are_there, "its keys are those of a task that has ended")
        sizes = await redis.ask(*(["MEMORY", "USAGE", key.decode()] for key in keys))
    finally:
        await redis.close()
    async with agent.stream("5 60") as response:
        paced = (await all_frames(response))[0].event["task"]
    alone = [
        size_of(one, paced["id"])
        for one in await read_log(fleet.nats_url, "counter", paced["id"])
        if len(one.lines) == 1 and b"artifactUpdate" in one.lines[0]
    ]
    assert is_about(sum(size_of(one, begun["id"]) for one in short), in_nats)
    assert is_about(sum(sizes), in_redis)
    assert alone
    assert all(is_about(one, token) for one in alone)
