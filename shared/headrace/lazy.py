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

    async def ready(self) -> T:
        """Return the value. On first use it is created in a thread, so the loop is not blocked."""
        return await asyncio.to_thread(self._once) if self._made is None else self._made

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
