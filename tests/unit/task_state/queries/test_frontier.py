"""The check that the view has caught up."""

import asyncio
from typing import cast

import pytest

from headrace.jetstream.connection import Bus
from headrace.model.errors import StateUnavailable
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.requests.answers import refusal_of
from headrace_task_state.store import Reader


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
