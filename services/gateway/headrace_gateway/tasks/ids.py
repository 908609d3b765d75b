"""Ids of tasks and messages."""

import re
from uuid import uuid4

from headrace.model.errors import InvalidName, TaskUnknown
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


def mint_message_id() -> str:
    """Return an id for a message that came without one."""
    return f"msg-{uuid4()}"


_MINTED = re.compile(r"msg-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_minted(message_id: str) -> bool:
    """Return whether the id is one of `mint_message_id`, of whichever gateway."""
    return _MINTED.fullmatch(message_id) is not None
