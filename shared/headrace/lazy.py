"""Values that are too expensive to create at start-up, such as large libraries."""

import asyncio
from collections.abc import Callable
from threading import Lock


class Lazy[T]:
    """A value that is created once, on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Create the value with `make`, which may be called in any thread."""
        self._make, self._making = make, Lock()
        self._made: T | None = None
        self._waiting: asyncio.Future[T] | None = None

    async def ready(self) -> T:
        """Return the value. On first use it is created in a thread, so the loop is not blocked.

        First uses at the same time share that thread: they leave the executor's others to others.
        """
        if self._made is not None:
            return self._made
        loop, waiting = asyncio.get_running_loop(), self._waiting
        if waiting is None or waiting.done() or waiting.get_loop() is not loop:
            waiting = self._waiting = loop.run_in_executor(None, self._once)
        return await asyncio.shield(waiting)

    @property
    def made(self) -> T | None:
        """The value; None if it has not been created."""
        return self._made

    @property
    def value(self) -> T:
        """The value, created if necessary. In an event loop, await `ready` first."""
        return self._once() if self._made is None else self._made

    def _once(self) -> T:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made
