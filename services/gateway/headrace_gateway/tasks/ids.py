"""Ids of tasks and messages, queries for a caller's tasks, and owners of tasks."""

import asyncio
import re
from uuid import uuid4

from headrace.jetstream.connection import Bus
from headrace.log import first_entry
from headrace.model.errors import BusUnavailable, InvalidName, TaskUnknown
from headrace.model.messages import GetTask
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey, check_task_id
from headrace.settings import BusSettings
from headrace_gateway.server.auth.caller import Caller


def task_key(settings: BusSettings, caller: Caller, agent: str, task: str) -> TaskKey:
    """Return the key of the caller's task; the task need not exist.

    Raises:
        TaskUnknown: no task can have that id, or no stream its shard.
    """
    try:
        key = TaskKey(caller.tenant, agent, check_task_id(task))
    except InvalidName:
        raise TaskUnknown from None
    if stream_of_shard(key.shard) >= settings.event_streams:
        raise TaskUnknown
    return key


def query_of(
    caller: Caller, key: TaskKey, operation: str = "", *, history_length: int | None = None
) -> GetTask:
    """Return the query for a task of the caller or, if it operates `operation`, of any owner."""
    return GetTask(
        tenant=key.tenant,
        owner=caller.owner,
        any_owner=bool(operation) and caller.operates(key.agent, operation),
        agent=key.agent,
        task=key.task,
        history_length=history_length,
    )


def mint_message_id() -> str:
    """Return an id for a message that came without one."""
    return f"msg-{uuid4()}"


_MINTED = re.compile(r"msg-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_minted(message_id: str) -> bool:
    """Return whether the id is one of `mint_message_id`, of whichever gateway."""
    return _MINTED.fullmatch(message_id) is not None


_LONGEST = 2.0
"""Seconds after which a request continues without the owner: an operator acts during outages."""


class TaskOwners:
    """Finds the owners of tasks."""

    def __init__(self, bus: Bus) -> None:
        """Read logs on `bus`."""
        self._bus = bus

    async def owner_of(self, caller: Caller, agent: str, task: str) -> str | None:
        """Return the owner, as a subject token, of the agent's task in the caller's tenant.

        Only the beginning of a log names it as a gateway wrote it. None: there is no such task, its
        log has no beginning any more, or NATS does not answer in time.
        """
        try:
            key = task_key(self._bus.settings, caller, agent, task)
            async with asyncio.timeout(_LONGEST):
                first = await first_entry(self._bus, key)
        except (TaskUnknown, BusUnavailable, TimeoutError):
            return None
        return None if first is None or first.generation > 1 else first.stamp.owner
