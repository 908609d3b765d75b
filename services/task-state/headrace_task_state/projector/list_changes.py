"""Publish what changes in lists, for gateways whose clients watch them.

A task is published when its state changes, once per batch, and never because of its output. The
messages of a range form a chain: each states where the previous one ended, so a reader detects a
message that it missed and requests the list again. One without tasks means that changes may be
missing: a reader that has just started has no end to compare.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.messages import ListChanges, ListedTask
from headrace.model.task import BARE_MESSAGE, TaskKey
from headrace_task_state.store import TaskChange, TaskRemoval, Writer, name_of

_log = logging.getLogger(__name__)

REMEMBERED_TASKS = 10_000
"""Tasks whose owner and state are remembered; those of others are read from the store."""

_IN_A_MESSAGE = 200


@dataclass(slots=True)
class _Known:
    """What is known of a listed task before a change."""

    owner: str
    context: str
    state: str | None
    """None: unknown."""


class ListChangePublisher:
    """Publishes the changes of one range, which its holder applies."""

    def __init__(self, bus: Bus, writer: Writer) -> None:
        """Publish on `bus` what `writer` has written."""
        self._bus, self._writer = bus, writer
        self._subject = bus.subjects.changes(writer.lease.range.stream)
        self._known: dict[TaskKey, _Known] = {}
        self._end = 0
        self._repeating: asyncio.Task[None] | None = None
        self._unregister = bus.on_disturbance(self._repeat_end)

    async def begin(self, position: int) -> None:
        """Continue the chain at stream sequence `position`.

        Readers ask for the list, because changes before it may not have been published.
        """
        self._end = position
        await self._send(position, [])

    async def publish(self, position: int, changes: Sequence[TaskChange | TaskRemoval]) -> None:
        """Publish those of the stored `changes`, up to stream sequence `position`, that lists show.

        Of what can't be published, readers learn that something is missing.
        """
        try:
            listed = [one for change in changes if (one := await self._listed(change))]
        except StateUnavailable as error:
            _log.debug("changes in lists are not published: %s", error)
            self._known.clear()
            await self.begin(position)
            return
        for some in batched(listed, _IN_A_MESSAGE):
            await self._send(position, list(some))

    def close(self) -> None:
        """Publish nothing more."""
        self._unregister()
        if self._repeating is not None:
            self._repeating.cancel()

    async def _send(self, position: int, tasks: list[ListedTask]) -> None:
        message = ListChanges(after=self._end, end=position, tasks=tasks)
        self._end = position
        try:
            await self._bus.publish(self._subject, message.encode())
        except BusUnavailable as error:
            _log.debug("changes in lists are not published: %s", error)

    def _repeat_end(self) -> None:
        """Inform readers that the last messages may not have been sent."""
        self._repeating = asyncio.create_task(self._send(self._end, []), name="end of list changes")

    async def _listed(self, change: TaskChange | TaskRemoval) -> ListedTask | None:
        """Return what lists show of a change; None: nothing."""
        key = change.key
        if isinstance(change, TaskRemoval):
            self._known.pop(key, None)
            return ListedTask(tenant=key.tenant, agent=key.agent, task=key.task, owner=change.owner)
        if not change.state:
            return None
        known = await self._before(change)
        if known is None or known.state == change.state:
            return None
        listed = ListedTask(
            tenant=key.tenant,
            agent=key.agent,
            task=key.task,
            owner=known.owner,
            context=known.context,
            state=None if change.state == BARE_MESSAGE else change.state,
            before=known.state,
            time=change.time,
        )
        known.state = change.state
        if change.ended is not None:
            self._known.pop(key, None)
        return listed

    async def _before(self, change: TaskChange) -> _Known | None:
        """Return the task before `change`; None: the view has no such task of that agent."""
        key = change.key
        if change.begins:
            known = _Known(change.owner, change.context, "")
        elif key in self._known:
            return self._known[key]
        else:
            [fields] = await self._writer.fields(name_of(key))
            if fields.get("agent") != key.agent:
                return None
            known = _Known(fields["owner"], fields["context"], None)
        if len(self._known) >= REMEMBERED_TASKS:
            self._known.clear()
        self._known[key] = known
        return known
