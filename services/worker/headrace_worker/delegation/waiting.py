"""Finding the child on whose behalf a run has asked its user."""

from headrace.jetstream.connection import Bus
from headrace.log import find_generation, last_entry, replay
from headrace.model.delegation import ASKS_FOR
from headrace.model.errors import LogLost
from headrace.model.task import TaskKey


async def waiting_child(bus: Bus, key: TaskKey, run: int) -> tuple[str, str] | None:
    """Return task and agent of the child that the input of `run` is for; None: there is none.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the log does not answer.
    """
    last = await last_entry(bus, key)
    if run == 1 or last is None:
        return None
    question = run - 1
    after = await find_generation(bus, key, question, last)
    async for batch in replay(bus, key, after, last.sequence):
        event = batch[0].events[question - batch[0].generation]
        told = event.get("statusUpdate", {}).get("metadata", {}).get(ASKS_FOR)
        if isinstance(told, dict):
            return str(told.get("task")), str(told.get("agent"))
        return None
    raise LogLost(f"the question before input {run} of {key.task} is gone")
