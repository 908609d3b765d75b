"""Tokens that a NATS server republishes are read by what they have in common."""

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.log import TailRule, follow
from headrace.log.read import LogMessage, from_message
from headrace.model.events import TextChunks
from tests.support.task_log import TaskLog, following

TOKENS = 20


async def test_of_a_stream_of_tokens_only_the_first_is_read_wholly(
    bus: Bus, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_wholly = list[Msg]()

    def read(msg: Msg, event: str) -> LogMessage:
        read_wholly.append(msg)
        return from_message(msg, event)

    monkeypatch.setattr(follow, "from_message", read)
    chunks, before = TextChunks(log.key.task, "context", "answer", {}), log.writer.sequence
    async with following(bus, TailRule(bus), log.key, before) as reading:
        for _ in range(TOKENS):
            stamp = log.stamp()._replace(attempt=1)
            await log.writer.append([chunks.draft("token")], stamp)
        await reading.until(log.writer.generation)
    assert reading.entries == (await log.read())[-TOKENS:]
    assert len(read_wholly) == 1
