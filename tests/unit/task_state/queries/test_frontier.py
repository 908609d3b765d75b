"""The check that the view has caught up."""

import asyncio
from typing import Any, cast

import pytest

from headrace.jetstream.connection import Bus
from headrace.model.errors import NobodyListens, StateUnavailable
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.requests import refusal_of
from headrace_task_state.store import Range, Reader
from tests.support.fake_bus import FakeBus


class FrozenReader:
    """A reader whose store accepts requests and does not answer them."""

    async def positions(self, _ranges: object) -> list[int]:
        await asyncio.Event().wait()
        return []


async def test_a_store_that_does_not_answer_is_not_waited_for_like_an_election() -> None:
    reader, bus = cast("Reader", FrozenReader()), cast("Bus", None)
    frontier = Frontier(bus, reader, [], store_timeout=0.01)
    with pytest.raises(StateUnavailable) as raised:
        await frontier.reached()
    assert not refusal_of(raised.value).is_temporary


class View:
    """The store's reader, the stream's leader and the replica that applies the range."""

    def __init__(self, head: int, positions: list[int]) -> None:
        """Reflect one after the other of `positions`, and the last one for ever."""
        self.head, self.left = head, positions
        self.bus = FakeBus(self._answer)
        self.wanted = list[bytes]()
        self.is_followed = True
        self.frontier = Frontier(self.bus, cast("Reader", self), [Range(0)])

    async def positions(self, _ranges: object) -> list[int]:
        await asyncio.sleep(0)
        return [self.left.pop(0) if len(self.left) > 1 else self.left[0]]

    def _answer(self, subject: str, payload: bytes) -> dict[str, Any] | NobodyListens:
        if "STREAM.INFO" in subject:
            now = "2026-01-01T00:00:00Z"
            return {"created": now, "ts": now, "state": {"last_seq": self.head}}
        self.wanted.append(payload)
        return {} if self.is_followed else NobodyListens(subject)


async def test_a_view_that_is_complete_needs_no_replica() -> None:
    view = View(7, [7])
    assert await view.frontier.reached() == {Range(0): 7}
    assert view.wanted == []


async def test_a_view_that_is_behind_is_looked_at_when_a_replica_has_written() -> None:
    view = View(7, [5, 7])
    assert await view.frontier.reached() == {Range(0): 7}
    assert view.wanted == [b"7"]


async def test_a_view_that_nobody_writes_is_looked_at_again() -> None:
    view = View(7, [5, 5, 5, 7])
    view.is_followed = False
    assert await view.frontier.reached() == {Range(0): 7}


async def test_a_view_that_stays_behind_after_answers_is_not_looked_at_without_a_pause() -> None:
    # So answers the replica that writes the view of another version.
    view = View(7, [5])
    reaching = asyncio.create_task(view.frontier.reached())
    await asyncio.sleep(0.1)
    reaching.cancel()
    await asyncio.gather(reaching, return_exceptions=True)
    assert 1 <= len(view.wanted) < 20


async def test_requests_during_a_check_share_the_next_one() -> None:
    view = View(7, [5, 7, 7])
    first = asyncio.create_task(view.frontier.reached())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.gather(first, *(view.frontier.reached() for _ in range(100)))
    assert sum("STREAM.INFO" in subject for subject in view.bus.asked) == 2
