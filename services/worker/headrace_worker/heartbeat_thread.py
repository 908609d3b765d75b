"""The thread with an event loop and a connection of its own, which never wait for an agent."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from headrace.jetstream.connection import Bus, NewTransport
from headrace.model.errors import BusUnavailable
from headrace.settings import BusSettings

_log = logging.getLogger(__name__)

_JOIN = 2.0


class HeartbeatThread:
    """The heartbeat thread; only code on its loop may use `bus`."""

    def __init__(
        self, settings: BusSettings, name: str, new_transport: NewTransport | None = None
    ) -> None:
        """Prepare a connection called `name`; `start` opens it (see `Bus`)."""
        self.bus = Bus(settings, new_transport)
        self._name = name
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._has_stopped = False

    async def start(self) -> None:
        """Start the thread and wait until it is connected.

        Raises:
            BusUnavailable: it was not connected within the start-up timeout.
        """
        self._thread.start()
        await self.call(self.bus.connect(self._name))

    async def stop(self) -> None:
        """Close the connection and end the thread."""
        self._has_stopped = True
        if not self._thread.is_alive():
            return
        await self._called(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _JOIN)

    async def call[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread's loop and return its result.

        Raises:
            BusUnavailable: the thread has been stopped; a run may outlive it.
        """
        if self._has_stopped:
            work.close()
            raise BusUnavailable("the worker has stopped")
        return await self._called(work)

    async def _called[T](self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on the thread's loop in the background, until the thread stops."""
        if self._has_stopped:
            work.close()
            return
        asyncio.run_coroutine_threadsafe(work, self._loop).add_done_callback(_complain)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the thread's loop, unless the thread has been stopped."""
        if not self._has_stopped:
            self._loop.call_soon_threadsafe(callback)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.bus.close()


def _complain(done: "concurrent.futures.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a task of the heartbeat thread failed", exc_info=error)
