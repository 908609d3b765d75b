"""Runs that wait for a task's end."""

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.model import json_text
from headrace.model.events import Json, timestamp
from headrace.model.messages import WokenRun
from headrace.model.task import TaskKey
from headrace.model.wait import SourceEvent
from headrace.tasks.wake import wake_by


async def wake_at_end(bus: Bus, ended: TaskKey, run: WokenRun, owner: str, event: Json) -> None:
    """Wake `run` of `owner` with the end of the task at `ended`: a Task, or a bare Message.

    Nothing happens if the run has ended, or has the end already.

    Raises:
        LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: It is not woken, or not for certain.
    """
    [body] = event.values()
    now = timestamp(clock.now())
    sent = SourceEvent(now, json_text.encode(body), "application/json")
    await wake_by(bus, ended.tenant, owner, run, sent)
