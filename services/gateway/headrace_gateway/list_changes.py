"""Changes in lists of tasks, as task state publishes them, for clients that watch lists.

Task state's messages can be lost with a connection, and a watcher can fall behind. Neither is
repaired from here: an item states that the list must be requested again.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from headrace.jetstream.connection import NO_ANSWER, Bus
from headrace.model import json_text
from headrace.model.errors import BusUnavailable
from headrace.model.events import timestamp
from headrace.model.messages import CoreMessage, ListChanges, ListedTask
from headrace.model.moments import moment_of
from headrace.model.subjects import decode_token
from headrace_gateway.changes import Batch, Changes, Topic

_log = logging.getLogger(__name__)

KEPT = 10_000
"""Changes that a watcher may fall behind, or be disconnected for: about 5 MB for all together."""

_INTEREST_SPREADS = 1.0
"""Seconds after which all servers of a NATS cluster have a new subscription."""

_BEGINNING = -1


@dataclass(frozen=True, slots=True)
class ListChange:
    """One task whose place in lists has changed."""

    task: ListedTask
    body: bytes
    """As clients see it: JSON, made once for all."""


type Item = ListChange | None
"""None: changes may have been missed, so the list must be asked for again."""


class ListChangeReceiver:
    """Receives the changes while there are watchers, and keeps the newest."""

    def __init__(
        self,
        bus: Bus,
        interest_spreads: float = _INTEREST_SPREADS,
        spread: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Receive from `bus`; `spread` draws in how many seconds one watcher asks for its list."""
        self._bus, self._interest_spreads, self._spread = bus, interest_spreads, spread
        self.changes = Changes[Item]("lists of tasks", KEPT, self._receive)
        self._name = secrets.token_hex(4)
        self._is_receiving = False
        self._ends: dict[str, int] = {}
        """Where the last message of each event stream ended, by its subject."""

    def cursor(self, number: int) -> str:
        """Return the cursor after the change of that number; other gateways do not have it."""
        return f"{self._name}:{number}"

    def start(self, cursor: str) -> int:
        """Return the number after which a watcher with this cursor begins.

        Without a cursor of this gateway, the first item read requires a request for the list.
        """
        name, _, number = cursor.partition(":")
        is_number = number.isascii() and number.isdecimal() and len(number) < len(str(2**63))
        if name == self._name and is_number and int(number) <= self.changes.head:
            return int(number)
        # Until the subscription exists, a list asked for would be too old: wait for its item.
        return _BEGINNING if self._is_receiving else self.changes.head

    def watched(self, tenant: str, agent: str | None, owner: str | None) -> Topic[Item]:
        """Return what wakes a watcher of tasks: of one agent or all, of one owner or all (None)."""
        return Topic(self.changes, _topic(tenant, agent, owner), self._pause)

    def _pause(self, batch: Batch[Item]) -> float:
        # The same fault affects all watchers; task state would get all their requests at once.
        return self._spread() if None in batch.items else 0.0

    async def _receive(self) -> None:
        subscription = await self._bus.listen(self._bus.subjects.changes(), self._on_message)
        unregister = self._bus.on_disturbance(self._miss)
        try:
            await self._flush()
            self._is_receiving = True
            self._miss()
            await asyncio.sleep(self._interest_spreads)
            self._miss()
            await asyncio.Event().wait()
        finally:
            self._is_receiving = False
            unregister()
            await self._bus.unsubscribe(subscription)

    async def _flush(self) -> None:
        try:
            await self._bus.connection.flush()
        except NO_ANSWER as error:
            raise BusUnavailable("NATS does not answer") from error

    def _miss(self) -> None:
        self._ends.clear()
        self.changes.append(None)

    def _on_message(self, msg: CoreMessage) -> None:
        message = ListChanges.decode_or_ignore(msg, "message about lists")
        if message is None:
            return
        if not message.tasks or self._ends.get(msg.subject, message.after) != message.after:
            self.changes.append(None)
        self._ends[msg.subject] = message.end
        for task in message.tasks:
            topics = [
                _topic(task.tenant, agent, owner)
                for agent in (task.agent, None)
                for owner in (task.owner, None)
            ]
            self.changes.append(ListChange(task, _body(task)), topics)


def _topic(tenant: str, agent: str | None, owner: str | None) -> str:
    """Return a name that no other three have: each is a subject token."""
    return f"{tenant}.{agent or '*'}.{owner or '*'}"


def _body(task: ListedTask) -> bytes:
    if task.state is None:
        return json_text.encode({"task": task.task, "state": None})
    time = moment_of(task.time)
    return json_text.encode(
        {
            "task": task.task,
            "agent": task.agent,
            "contextId": task.context,
            "owner": decode_token(task.owner),
            "state": task.state,
            "time": timestamp(time, "auto"),
        }
    )
