"""One task as of now: the view, and what the leader has behind it."""

import asyncio

from headrace.bus import Bus
from headrace.entry import Entry
from headrace.errors import InvalidName, LogLost, TaskUnknown
from headrace.events import Json
from headrace.fold import TaskFold
from headrace.log import replay
from headrace.messages import GetTask
from headrace.names import is_token
from headrace.subjects import stream_of_shard
from headrace.task import TaskKey, check_task_id
from headrace_task_state.leader import find_message
from headrace_task_state.reading.found import Found, read_found
from headrace_task_state.store.reading import Reader

NO_SUCH_TASK = "task not found"
"""Said also of a task that is somebody else's."""


class Tasks:
    """Answers ``get``; never older than the log was when the question came."""

    def __init__(self, bus: Bus, reader: Reader, event_streams: int) -> None:
        """Read the view, and the logs in so many event streams."""
        self._bus, self._reader, self._event_streams = bus, reader, event_streams

    async def get(self, query: GetTask) -> Json:
        """Return a `TaskFound` as JSON.

        Raises:
            TaskUnknown: there is no such task, or it is not the caller's.
            StateUnavailable: Redis does not answer.
            BusUnavailable: NATS does not answer.
        """
        self._check(query)
        seen, tail = await asyncio.gather(self._seen(query), self._tail(query))
        found = None if tail is None else await self._up_to(*tail, seen)
        if found is None or not _is_for(query, found):
            raise await self._unknown(query)
        return {
            "task": found.fold.task(query.history_length),
            "agent": found.agent,
            "log": found.log,
            "generation": found.fold.generation,
            "sequence": found.sequence,
            "state": found.fold.state,
            "traceparent": found.traceparent,
        }

    def _check(self, query: GetTask) -> None:
        """See that all that goes into subjects and keys can."""
        try:
            shard = int(check_task_id(query.task).partition("-")[0])
        except InvalidName:
            raise TaskUnknown(NO_SUCH_TASK) from None
        names = (query.tenant, query.agent or query.tenant)
        if stream_of_shard(shard) >= self._event_streams or not all(map(is_token, names)):
            raise TaskUnknown(NO_SUCH_TASK)

    async def _seen(self, query: GetTask) -> Found | None:
        stored = await self._reader.task(query.tenant, query.task)
        return None if stored is None else read_found(stored)

    async def _tail(self, query: GetTask) -> tuple[TaskKey, int] | None:
        """Return the log and the sequence of its last message, as the leader knows it."""
        # Without an agent the log is found under whichever it is: task ids are unique.
        key = TaskKey(query.tenant, query.agent or "*", query.task)
        asked = {"last_by_subj": self._bus.subjects.event(key)}
        message = await find_message(self._bus, self._bus.streams.of_shard(key.shard), asked)
        if message is None:
            return None
        return self._bus.subjects.key_of_event(message["subject"]), int(message["seq"])

    async def _up_to(self, key: TaskKey, head: int, found: Found | None) -> Found | None:
        """Fold in what lies between the view and `head`; without a view, the whole log."""
        if found is not None and found.sequence >= head:
            return found
        begun_from = found
        try:
            async for batch in replay(self._bus, key, found.sequence if found else 0, head):
                for entry in batch:
                    found = _fold_in(key, found, entry)
        except LogLost:
            # Purged down to its last message; or another log than the view's has begun.
            return None if begun_from is None else await self._up_to(key, head, None)
        return found

    async def _unknown(self, query: GetTask) -> TaskUnknown:
        if await self._reader.former_owner(query.tenant, query.task) == query.owner:
            return TaskUnknown("this task is past retention: it had ended and is not kept any more")
        return TaskUnknown(NO_SUCH_TASK)


def _fold_in(key: TaskKey, found: Found | None, entry: Entry) -> Found:
    if found is None:
        stamp = entry.stamp
        found = Found(TaskFold(), stamp.owner or "", key.agent, stamp.log, entry.sequence)
    elif entry.stamp.log != found.log:
        raise LogLost(f"{key.task} has another log than the view's")
    found.fold.apply_entry(entry)
    found.sequence = entry.sequence
    return found


def _is_for(query: GetTask, found: Found) -> bool:
    return query.owner == found.owner and query.agent in (None, found.agent)
