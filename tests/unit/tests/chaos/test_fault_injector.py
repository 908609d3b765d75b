"""Faults leave clients time to see tasks end, however slow the machine is."""

import asyncio
from dataclasses import dataclass
from typing import cast

from tests.chaos.faults import Fault, FaultInjector, Undo
from tests.chaos.fleet import Fleet
from tests.support.background import running
from tests.support.waiting import soon


@dataclass(frozen=True, slots=True)
class NoFault(Fault):
    @property
    def name(self) -> str:
        return "none"

    async def do(self, fleet: Fleet) -> Undo | None:
        del fleet
        return None


async def test_a_fault_waits_for_a_client_to_end_except_one_of_five() -> None:
    ended = 0
    injector = FaultInjector(cast("Fleet", None), lambda: ended)

    async def have_injected(number: int) -> None:
        await soon(lambda: injector.injected.total() == number, f"{number} faults")
        for _ in range(10):
            await asyncio.sleep(0)
        assert injector.injected.total() == number

    async with running(injector.inject_all(iter([(0.0, NoFault(0.0))] * 7))):
        await have_injected(1)
        ended = 1
        await have_injected(2)
        ended = 2
        await have_injected(3)
        ended = 3
        await have_injected(4)
        ended = 4
        await have_injected(6)
        ended = 5
        await have_injected(7)
