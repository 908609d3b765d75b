"""Finding a task's log from nothing but the task's id."""

from sys import maxsize

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.log.read import next_stored
from headrace.model.errors import TaskUnknown
from headrace.model.task import TaskKey, check_task_id


async def locate(bus: Bus, task: str) -> TaskKey:
    """Return whose task `task` is, and which agent's; for operators, who may see everybody's.

    Raises:
        InvalidName: `task` has not the form of a task id.
        TaskUnknown: there is no such log.
        BusUnavailable: the stream does not answer, for longer than an election takes.
    """
    key = TaskKey("*", "*", check_task_id(task))
    stream = bus.streams.of_shard(key.shard)
    query = {"subjects_filter": bus.subjects.event(key)}
    answer = await until_answered(bus, lambda: stream_info(bus, stream, query))
    keys = [bus.subjects.key_of_event(one) for one in answer["state"].get("subjects") or {}]
    if not keys:
        raise TaskUnknown(f"there is no task {task}")
    if len(keys) == 1:
        return keys[0]
    # A hostile worker may write under the id of another agent's task. It learns of the id from the
    # task's log: the older one is the task's.
    begun = {key: await next_stored(bus, key, 0) for key in keys}
    return min(keys, key=lambda key: found.sequence if (found := begun[key]) else maxsize)
