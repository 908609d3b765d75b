"""What happens between an agent's question and its user's answer, whichever the adapter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, override

from headrace import Agent, Agents
from headrace.clock import TaskClock, use_task_clock
from tests.integration.worker.conftest import Working
from tests.support.servers import NatsProcess
from tests.support.worker_process import WorkerProcess

EVENTS: Final = ["reload", "other worker", "restart", "a day"]

type Happen = Callable[[], Awaitable[object]]


class NextDay(TaskClock):
    """A clock that is a day ahead."""

    @override
    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=1, minutes=1)


class Between:
    """Serves an agent that is made anew after each event, as another process makes it."""

    def __init__(
        self, build: Callable[[], Agent], working: Working, nats_server: NatsProcess
    ) -> None:
        """Serve what `build` makes."""
        self._build, self._working, self._nats = build, working, nats_server

    @asynccontextmanager
    async def serve(
        self, event: str, spawn: Callable[[], WorkerProcess] | None = None
    ) -> AsyncIterator[Happen]:
        """Serve the agent; what is yielded lets `event` happen, and returns when it has.

        `spawn` starts a process of its own for the agent that asks. Without it, another worker of
        this process is the other one.
        """
        async with AsyncExitStack() as after, AsyncExitStack() as before:
            if event == "other worker" and spawn is not None:
                before.enter_context(spawn())
                worker: Any = None
            else:
                worker = await before.enter_async_context(self._working(self._build()))

            async def happen() -> None:
                if event == "reload":
                    await worker.update(Agents([self._build()]))
                    return
                await before.aclose()
                if event == "restart":
                    await asyncio.to_thread(self._nats.restart)
                with use_task_clock(NextDay() if event == "a day" else TaskClock()):
                    await after.enter_async_context(self._working(self._build()))

            yield happen
