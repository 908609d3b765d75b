import asyncio

import pytest

from headrace.number_limit import NumberLimit
from headrace.webhooks import TooManyWebhooks

REFUSED = TooManyWebhooks("two are too many")


class Shelf:
    """Records that several processes add; each step takes a turn of the loop."""

    def __init__(self, most: int) -> None:
        self.records = list[int]()
        self._limit = NumberLimit(most, self._count, REFUSED)

    async def add(self, number: int) -> int:
        async def add() -> int:
            await asyncio.sleep(0)
            self.records.append(number)
            return number

        return await self._limit.add(add, self._remove)

    async def _count(self) -> int:
        await asyncio.sleep(0)
        return len(self.records)

    async def _remove(self, number: int) -> None:
        self.records.remove(number)


async def test_one_more_than_the_limit_is_never_added() -> None:
    shelf = Shelf(1)
    assert await shelf.add(1) == 1
    with pytest.raises(TooManyWebhooks, match="two are too many"):
        await shelf.add(2)
    assert shelf.records == [1]


async def test_those_that_are_added_at_the_same_time_are_taken_back() -> None:
    shelf = Shelf(1)
    outcomes = await asyncio.gather(shelf.add(1), shelf.add(2), return_exceptions=True)
    assert REFUSED in outcomes
    assert len(shelf.records) == sum(outcome is not REFUSED for outcome in outcomes) <= 1
