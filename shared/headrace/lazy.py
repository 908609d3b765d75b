"""Values that cost too much to make at start, such as a library with hundreds of models."""

import asyncio
from collections.abc import Callable
from threading import Lock


class Lazy[T]:
    """A value that is made once, when it is first used."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Use what `make` returns; it is called in any thread."""
        self._make, self._making = make, Lock()
        self._made: T | None = None

    async def ready(self) -> T:
        """Return the value. Its first use makes it in a thread, so the event loop goes on."""
        return await asyncio.to_thread(self._once) if self._made is None else self._made

    @property
    def made(self) -> T | None:
        """The value; None if nobody has used it."""
        return self._made

    @property
    def value(self) -> T:
        """The value, made at once if it is missing: await `ready` before in an event loop."""
        return self._once() if self._made is None else self._made

    def _once(self) -> T:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made
