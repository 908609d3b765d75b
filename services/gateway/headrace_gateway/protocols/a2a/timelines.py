"""GetTask with the task's timeline, which is read from the log."""

from headrace.model.events import Json
from headrace.model.messages import TaskFound
from headrace.model.task import TaskKey
from headrace.model.timeline import TimelineFold
from headrace_gateway.call import Call
from headrace_gateway.services import Services

_MOST = 1000
"""Entries of a response; the draft lets a server return fewer than asked for."""


async def with_timeline(
    services: Services, call: Call, found: TaskFound, length: int | None
) -> Json:
    """Return the task with the latest entries of its timeline, at most `length` if it is given.

    Raises:
        TaskUnknown: the log is gone.
        BusUnavailable: it can't be read now.
    """
    key = TaskKey(call.caller.tenant, found.agent, found.task["id"])
    timeline = TimelineFold(found.generation)
    async with await services.task_streams.open_log(call.caller, key, None) as opened:
        reader = opened.feed.reader(opened.after)
        while reader.after < found.generation and (blocks := await reader.read_now()):
            for block in blocks:
                timeline.read(block.entry)
    return timeline.shown_in(found.task, _MOST if length is None else min(length, _MOST))
