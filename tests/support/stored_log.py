"""Read a task's log from JetStream without the project's own readers."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import nats
from nats.aio.client import Client

from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey
from tests.support.jetstream_api import ask, until_settled
from tests.support.waiting import eventually

type Json = dict[str, Any]

_NO_MESSAGE = 10037
"""JetStream's error code for "nothing is stored there"; every other error says nothing of it."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One stored message."""

    headers: dict[str, str]
    lines: list[bytes]
    sequence: int
    time: str
    """When NATS stored it, RFC 3339."""

    @property
    def events(self) -> list[Json]:
        """The events that it carries."""
        return [json.loads(line) for line in self.lines]


def subject_of(agent: str, task: str) -> str:
    """Return the subject of the task's log."""
    return Subjects().event(TaskKey("default", agent, task))


async def read_log(nats_url: str | list[str], agent: str, task: str) -> list[StoredMessage]:
    """Return every message of the log, from the leader, once the stream's copies agree.

    Raises:
        AssertionError: the stream has no leader, or not all its copies catch up.
    """
    client = await nats.connect(nats_url)
    try:
        await until_settled(client, "EVENTS")
        return await _read(client, agent, task)
    finally:
        await client.close()


async def events_of(nats_url: str, agent: str, task: str) -> list[Json]:
    """Return every event of the log."""
    stored = await read_log(nats_url, agent, task)
    return [event for message in stored for event in message.events]


async def lines_of(nats_url: str, agent: str, task: str) -> list[bytes]:
    """Return every event of the log as its bytes."""
    return [line for message in await read_log(nats_url, agent, task) for line in message.lines]


async def _read(client: Client, agent: str, task: str) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    after = 0
    while found := await _next(client, subject_of(agent, task), after + 1):
        after = found["seq"]
        raw = base64.b64decode(found.get("hdrs", "")).decode().split("\r\n")[1:]
        headers = dict(line.split(": ", 1) for line in raw if line)
        lines = base64.b64decode(found["data"]).split(b"\n")
        messages.append(StoredMessage(headers, lines, after, found["time"]))
    return messages


async def _next(client: Client, subject: str, sequence: int) -> Json | None:
    answer: Json = {}

    async def is_answered() -> bool:
        query = {"seq": sequence, "next_by_subj": subject}
        answer.update(await ask(client, "$JS.API.STREAM.MSG.GET.EVENTS", query))
        return "message" in answer or answer.get("error", {}).get("err_code") == _NO_MESSAGE

    await eventually(is_answered, f"the leader tells what is stored behind {sequence - 1}")
    found: Json | None = answer.get("message")
    return found
