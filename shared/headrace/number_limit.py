"""A maximum number of records, also while several processes add some at the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.model.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class NumberLimit:
    """Limits the records of one owner, or of one task."""

    most: int
    count: Callable[[], Awaitable[int]]
    """Returns how many are stored."""
    refusal: HeadraceError
    """What is raised if one more would be too many."""

    async def add[Added](
        self, add: Callable[[], Awaitable[Added]], remove: Callable[[Added], Awaitable[object]]
    ) -> Added:
        """Return what `add` returns. `remove` takes it back if others were added meanwhile.

        `remove` leaves a record that another request has replaced, because that one was accepted.
        Apart from such records, processes that add at the same time may all be refused, but never
        exceed the limit.

        Raises:
            HeadraceError: The refusal.
        """
        if await self.count() >= self.most:
            raise self.refusal
        added = await add()
        if await self.count() > self.most:
            await remove(added)
            raise self.refusal
        return added
