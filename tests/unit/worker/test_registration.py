"""A worker's entries in the directory: none of its renewals is stored behind its deletion."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, cast

import pytest

from headrace import Agents, Emission, RunContext, agent
from headrace.directory import Announcer, DirectoryTiming
from headrace.model.agent_card import AgentCard
from headrace_worker.heartbeat_thread import HeartbeatThread
from headrace_worker.registration import Registration

AT_ONCE = DirectoryTiming(renew_interval=0.0)


@agent()
async def first(_: RunContext) -> AsyncIterator[Emission]:
    """Say nothing of note."""
    yield "-"


@agent()
async def second(_: RunContext) -> AsyncIterator[Emission]:
    """Say nothing of note."""
    yield "-"


class SameThread:
    """In place of the heartbeat thread: the test's own loop."""

    @staticmethod
    async def call[T](work: Coroutine[Any, Any, T]) -> T:
        """Run `work` here."""
        return await work


class StoredEntries(Announcer):
    """The directory's entries, in which renewals wait until an entry has been deleted."""

    def __init__(self) -> None:
        self.entries: set[str] = set()
        self.is_renewing, self.deleted = asyncio.Event(), asyncio.Event()
        self.deletions = 0
        self.under_way: set[str] = set()

    async def announce(self, card: AgentCard) -> None:
        """Store the entry."""
        self.entries.add(card.name)

    async def renew_all(self, cards: Iterable[AgentCard]) -> None:
        """Store the entries once an entry has been deleted."""
        self.is_renewing.set()
        self.under_way = {card.name for card in cards}
        await self.deleted.wait()
        self.entries |= self.under_way

    async def withdraw(self, agent: str) -> None:
        """Delete the entry."""
        self.entries.discard(agent)
        self.deletions += 1
        self.deleted.set()


@pytest.fixture
def stored() -> StoredEntries:
    """The entries of both agents."""
    return StoredEntries()


@pytest.fixture
async def registration(stored: StoredEntries) -> Registration:
    """Of a worker that is renewing the entry of its first agent."""
    thread = cast("HeartbeatThread", SameThread())
    registered = Registration(thread, stored, Agents([first, second]), AT_ONCE)
    await registered.announce()
    await stored.is_renewing.wait()
    return registered


async def settled() -> None:
    """Return when all that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_entries_of_all_agents_are_renewed_together(
    registration: Registration, stored: StoredEntries
) -> None:
    await settled()
    assert stored.under_way == {"first", "second"}
    await registration.withdraw()


async def test_a_renewal_on_its_way_does_not_restore_the_entry_of_a_worker_that_left(
    registration: Registration, stored: StoredEntries
) -> None:
    await registration.withdraw()
    await settled()
    assert stored.entries == set()


async def test_a_worker_that_drains_renews_its_deletion_markers(
    registration: Registration, stored: StoredEntries
) -> None:
    await registration.withdraw()
    first = stored.deletions
    await settled()
    assert first == 2
    assert stored.deletions > first


async def test_a_renewal_on_its_way_does_not_restore_the_entry_of_an_agent_that_is_gone(
    registration: Registration, stored: StoredEntries
) -> None:
    await registration.replace(Agents([second]))
    await settled()
    assert stored.entries == {"second"}
    await registration.withdraw()
    assert stored.entries == set()


async def test_a_worker_that_left_announces_nothing_more(
    registration: Registration, stored: StoredEntries
) -> None:
    await registration.withdraw()
    await registration.replace(Agents([first]))
    await settled()
    assert stored.entries == set()
