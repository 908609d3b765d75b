"""Messages are handled side by side, and not too many of them at a time."""

import asyncio

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.broker import ConcurrentHandler
from headrace.metrics import MESSAGES_DROPPED
from tests.support.fake_bus import message
from tests.support.waiting import eventually


class Handling:
    """Handles messages: those that are held wait until they are let go."""

    def __init__(self, held: set[str]) -> None:
        self.begun: list[str] = []
        self.held = {subject: asyncio.Event() for subject in held}

    async def handle(self, msg: Msg) -> None:
        self.begun.append(msg.subject)
        if msg.subject in self.held:
            await self.held[msg.subject].wait()


async def test_a_slow_message_holds_up_no_other() -> None:
    handling = Handling({"slow"})
    handler = ConcurrentHandler(handling.handle)
    for subject in ("slow", "a", "b"):
        handler.handle(message(subject))
    assert handling.begun == ["slow", "a", "b"]
    handling.held["slow"].set()


async def test_what_there_is_no_room_for_waits_in_line() -> None:
    handling = Handling({"1", "2"})
    handler = ConcurrentHandler(handling.handle, at_once=2)
    for subject in ("1", "2", "3", "4"):
        handler.handle(message(subject))
    assert handling.begun == ["1", "2"]
    handling.held["2"].set()

    async def are_begun() -> bool:
        return handling.begun == ["1", "2", "3", "4"]

    await eventually(are_begun, "what waited is handled in its order")
    handling.held["1"].set()


async def test_what_would_fill_the_memory_is_dropped_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handling = Handling({"1"})
    handler = ConcurrentHandler(handling.handle, at_once=1, most_waiting=10)
    before = MESSAGES_DROPPED._value.get()
    for subject in ("1", "2", "3", "4", "5"):
        handler.handle(message(subject, b"12345"))
    assert MESSAGES_DROPPED._value.get() - before == 2
    assert [one.message for one in caplog.records] == ["messages on 4 are dropped: too many wait"]
    handling.held["1"].set()

    async def are_begun() -> bool:
        return handling.begun == ["1", "2", "3"]

    await eventually(are_begun, "what waited is handled")
    handler.handle(message("6", b"12345"))
    assert handling.begun[-1] == "6"
