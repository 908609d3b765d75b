"""Answer a child task that waits for input: append its parent's next message, once."""

import secrets

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.log.read import next_stored
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, StartRefused, TaskUnknown
from headrace.model.events import PRIORITY, TRACEPARENT, Json
from headrace.model.messages import RunRequest, StartTask, TaskStarted
from headrace.model.subjects import NORMAL
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.continue_ import LogEnd, next_input

_APPEND_TIMEOUT = 3.0
_ROUNDS = 3


class ChildContinuer:
    """Continues children that wait for input."""

    def __init__(self, bus: Bus, runs: BackgroundRuns) -> None:
        """Append on `bus` and publish run requests with `runs`."""
        self._bus, self._runs = bus, runs

    async def continue_child(
        self, query: StartTask, key: TaskKey, lineage: Lineage, owner: str
    ) -> TaskStarted:
        """Append the message as the child's next input; if it is there already, return that input.

        Raises:
            StartRefused: the child does not wait for input.
            TaskUnknown: the parent has no such child.
            BusUnavailable: NATS does not answer.
        """
        await self._check_is_child(query, key, owner)
        for _ in range(_ROUNDS):
            last = await last_entry(self._bus, key)
            if last is None:
                break
            if (there := await self._find(key, last, lineage)) is not None:
                return _started(key, last.stamp.log, there, again=True)
            if last.stamp.state != INPUT_REQUIRED:
                raise StartRefused("not_waiting", f"task {key.task} is not waiting for input")
            try:
                return await self._append(query, key, lineage, last, owner)
            except Fenced:
                continue
        raise TaskUnknown

    async def _check_is_child(self, query: StartTask, key: TaskKey, owner: str) -> None:
        first = await next_stored(self._bus, key, 0)
        entry = first.entry if first is not None else None
        metadata = {} if entry is None else entry.events[0].get("task", {}).get("metadata", {})
        asked = Lineage.of(metadata)
        if entry is None or asked is None or asked.parent != query.parent:
            raise TaskUnknown
        if entry.stamp.owner != owner:
            raise TaskUnknown

    async def _append(
        self, query: StartTask, key: TaskKey, lineage: Lineage, last: Entry, owner: str
    ) -> TaskStarted:
        context, run = _context_of(last), last.last_generation + 1
        message = as_asked(query, key.task)
        metadata = {DELEGATION: lineage.to_json(), **terms_of(query)}
        request = RunRequest(log=last.stamp.log, context=context, owner=owner)
        end = LogEnd(key, last.sequence, last.last_generation)
        following = next_input(self._bus, end, request, message, metadata, writer=writer_id())
        appended = await following.append(_APPEND_TIMEOUT)
        self._runs.publish_soon(key, run, following.request, following.priority)
        return _started(key, request.log, (run, appended.sequence, context))

    async def _find(
        self, key: TaskKey, last: Entry, lineage: Lineage
    ) -> tuple[int, int, str] | None:
        """Return run, sequence and context of the input that this very request has become."""
        async for batch in replay(self._bus, key, 0, last.sequence):
            for entry in batch:
                if entry.generation == entry.stamp.run > 1:
                    update = entry.events[0].get("statusUpdate") or {}
                    if lineage.is_same_question(Lineage.of(update.get("metadata") or {})):
                        return entry.generation, entry.sequence, str(update.get("contextId", ""))
        return None


def _context_of(last: Entry) -> str:
    event = last.events[-1]
    return str((event.get("statusUpdate") or event.get("task") or {}).get("contextId", ""))


def _started(
    key: TaskKey, log: str, place: tuple[int, int, str], *, again: bool = False
) -> TaskStarted:
    run, sequence, context = place
    return TaskStarted(
        task=key.task, log=log, context=context, run=run, sequence=sequence, again=again
    )


def as_asked(query: StartTask, task: str) -> Json:
    """Return the child's message, with the child's id in its own and a reference to the parent."""
    referred = [one for one in query.message.get("referenceTaskIds", []) if one != query.parent]
    return {
        **query.message,
        "messageId": query.message.get("messageId") or f"{task}-{query.run}",
        "role": "ROLE_USER",
        "referenceTaskIds": [query.parent, *referred],
    }


def terms_of(query: StartTask) -> Json:
    """Return the terms of a child's run, stored with its input for later requests of the run."""
    terms: Json = {}
    if query.priority != NORMAL:
        terms[PRIORITY] = query.priority
    if query.traceparent:
        terms[TRACEPARENT] = query.traceparent
    return terms


def writer_id() -> str:
    """Return a writer id for one append."""
    return f"task-state-{secrets.token_hex(6)}"
