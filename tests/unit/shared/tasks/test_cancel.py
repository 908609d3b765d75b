"""Whoever cancels a task asks its holder first."""

import asyncio
from types import SimpleNamespace
from typing import cast

from nats.errors import NoRespondersError

from headrace.jetstream.connection import Bus
from headrace.model.messages import HolderReply
from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey, mint_task_id
from headrace.tasks import cancel

KEY = TaskKey("default", "echo", mint_task_id(0))


class Holder:
    """Hears nothing of the first questions: it finds another server."""

    def __init__(self) -> None:
        self.asked = 0

    async def request(self, subject: str, question: bytes, timeout: float) -> object:
        assert subject, (question, timeout)
        self.asked += 1
        if self.asked < 8:
            raise NoRespondersError
        return SimpleNamespace(data=HolderReply(writer="a", worker="w", run=1, attempt=1).encode())


async def test_a_holder_that_finds_another_server_is_not_fenced() -> None:
    holder = Holder()
    now = asyncio.get_running_loop().time()
    bus = SimpleNamespace(
        connection=holder, subjects=Subjects("headrace"), answers=True, back_since=now
    )
    async with asyncio.timeout(60):
        holding = await cancel._ask(cast("Bus", bus), KEY, cancel.TIMING)
    assert holding is not None
    assert (holding.accepted, holder.asked) == (True, 8)
