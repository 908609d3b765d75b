"""Erase what agents remember of conversations that have no task any more."""

import logging
from collections.abc import Awaitable, Callable
from itertools import batched

from headrace.jetstream.agent_memory import AgentMemory, ConversationMemory
from headrace.jetstream.connection import Bus
from headrace.model.messages import ListTasks
from headrace_task_state.maintenance.due import repeat
from headrace_task_state.maintenance.file_upkeep import FileUpkeep
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import After, Reader

_log = logging.getLogger(__name__)

_AT_ONCE = 200
"""Conversations after which the lease is confirmed again."""

_PAGE = 100
"""Tasks that are read at a time where NATS has only a hash of the context."""


class MemoryUpkeep:
    """Looks for the tasks of all conversations that have memory; one replica does so."""

    def __init__(
        self,
        bus: Bus,
        reader: Reader,
        frontier: Frontier,
        files: FileUpkeep,
        *,
        confirm: Callable[[], Awaitable[None]],
        interval: float,
    ) -> None:
        """Look every `interval` seconds, once the view has caught up.

        `confirm` raises if the lease is lost.
        """
        self._memory, self._reader, self._frontier = AgentMemory(bus), reader, frontier
        self._files, self._confirm, self._interval = files, confirm, interval
        self._streams = {place.stream for place in frontier.ranges}

    async def run(self) -> None:
        """Run until the lease is lost."""
        await repeat(self.look, self._interval, "the search for unused memory")

    async def look(self) -> None:
        """Erase the memory of conversations whose tasks are all erased.

        It is left for as long as a log may be missing because it is about to be restored, as files
        are, and for the time in which a new task may begin.

        Raises:
            BusUnavailable: NATS does not answer.
            StateUnavailable: The view does not catch up, or the store does not answer.
        """
        async for found in self._memory.conversations():
            for some in batched(sorted(found), _AT_ONCE):
                await self._confirm()
                for conversation in some:
                    if await self._is_unused(conversation):
                        _log.info("erasing memory of a conversation of %s", conversation.agent)
                        await self._memory.erase_conversation(conversation)

    async def _is_unused(self, conversation: ConversationMemory) -> bool:
        if await self._has_task(conversation):
            return False
        stored = await self._memory.last_write(conversation)
        for stream in self._streams:
            if not await self._files.is_abandoned(stream, stored):
                return False
        # A task may have begun, and have found the memory, since the list was read.
        return not await self._has_task(conversation)

    async def _has_task(self, conversation: ConversationMemory) -> bool:
        named = conversation.context
        query = ListTasks(
            tenant=conversation.tenant,
            owner=conversation.owner,
            agents=[conversation.agent],
            context=named,
            page_size=_PAGE if named is None else 1,
        )
        after: After | None = None
        while True:
            page = await self._reader.page(query, 0, after, await self._frontier.reached())
            if any(conversation.has(one.fields["context"]) for one in page.tasks):
                return True
            if not page.more:
                return False
            after = After(page.tasks[-1].time, page.tasks[-1].task)
