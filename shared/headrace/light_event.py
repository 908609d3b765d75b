"""`asyncio.Event` for objects that exist many times and are rarely waited for."""

import asyncio


class LightEvent:
    """An `asyncio.Event` that takes 48 bytes until a coroutine waits for it, instead of 850."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        """Begin unset, or set."""
        self._is_set = is_set
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all coroutines that wait for that."""
        self._is_set = True
        waiting, self._waiting = self._waiting, None
        for each in waiting or ():
            if not each.done():
                each.set_result(None)

    def clear(self) -> None:
        """Unset it."""
        self._is_set = False

    async def wait(self) -> bool:
        """Wait until it is set; return True, as `asyncio.Event` does."""
        if not self._is_set:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            left = [each for each in self._waiting or () if not each.done()]
            self._waiting = [*left, waiting]
            await waiting
        return True
