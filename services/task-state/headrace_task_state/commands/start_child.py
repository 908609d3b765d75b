"""Start the child tasks that agents request: each once, within the limits."""

import asyncio

import orjson

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.read import next_stored
from headrace.model.asked_message import why_no_message
from headrace.model.delegation import DELEGATION, Lineage, child_task_id
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, InvalidName, StartRefused, TaskUnknown
from headrace.model.events import SHOWN, Json
from headrace.model.messages import StartTask, TaskStarted
from headrace.model.names import is_token
from headrace.model.queues import PRIORITIES
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey, check_task_id
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import first_input
from headrace_task_state.commands.continue_child import (
    ChildContinuer,
    as_asked,
    terms_of,
    writer_id,
)
from headrace_task_state.settings import TaskStateSettings

_APPEND_TIMEOUT = 3.0


class ChildStarter:
    """Answers ``start``."""

    def __init__(self, bus: Bus, directory: Directory, settings: TaskStateSettings) -> None:
        """Start agents in `directory`, within the depth and number that `settings` allow."""
        self._bus, self._directory, self._settings = bus, directory, settings
        self._runs = BackgroundRuns(bus)
        self._continuer = ChildContinuer(bus, self._runs)

    async def start(self, query: StartTask) -> Json:
        """Return a `TaskStarted` as JSON.

        Raises:
            StartRefused: a rule forbids it.
            TaskUnknown: the parent does not exist.
            InvalidName: a field is invalid.
            BusUnavailable: NATS does not answer.
        """
        parent = _parent_of(query)
        if (why := why_no_message(query.message)) is not None:
            raise InvalidName("message", "", why)
        first, last = await asyncio.gather(
            next_stored(self._bus, parent, 0), last_entry(self._bus, parent)
        )
        if first is None or first.entry is None or first.entry.generation != 1 or last is None:
            raise TaskUnknown
        _check_asks(query, last)
        lineage = await self._lineage(query, first.entry)
        context = str(first.entry.events[0].get("task", {}).get("contextId", ""))
        owner = first.entry.stamp.owner or ""
        if query.into is not None:
            key = TaskKey(query.tenant, query.agent, _checked(query.into))
            started = await self._continuer.continue_child(query, key, lineage, owner)
        else:
            started = await self._begin(query, lineage, context, owner)
        return started.model_dump(exclude_none=True)

    async def _lineage(self, query: StartTask, first: Entry) -> Lineage:
        above = Lineage.of(first.events[0].get("task", {}).get("metadata") or {})
        path = (*(above.path if above else ()), query.parent_agent)
        if query.into is None:
            await self._check_path(query.agent, path)
        return Lineage(
            parent=query.parent,
            agent=query.parent_agent,
            run=query.run,
            name=query.name,
            path=path,
            deadline=query.deadline,
            budget=query.budget,
        )

    async def _check_path(self, agent: str, path: tuple[str, ...]) -> None:
        chain = " → ".join([*path, agent])
        if self._directory.card(agent) is None:
            # The agent may have been announced a moment ago.
            await self._directory.read()
        if self._directory.card(agent) is None:
            raise StartRefused("agent_unknown", f"agent {agent!r} does not exist")
        if len(path) > (most := self._settings.delegation_depth):
            raise StartRefused("too_deep", f"the delegation depth is limited to {most}: {chain}")
        if path.count(agent) >= (most := self._settings.delegation_repeats):
            times = "once" if most == 1 else f"{most} times"
            reason = f"an agent may occur {times} in a chain of delegations: {chain}"
            raise StartRefused("repeated", reason)

    async def _begin(
        self, query: StartTask, lineage: Lineage, context: str, owner: str
    ) -> TaskStarted:
        task = child_task_id(query.parent, query.run, query.agent, query.name)
        key = TaskKey(query.tenant, query.agent, task)
        metadata = {DELEGATION: lineage.to_json(), SHOWN: True, **terms_of(query)}
        first = first_input(
            self._bus,
            key,
            context,
            as_asked(query, task),
            metadata,
            owner=owner,
            writer=writer_id(),
        )
        try:
            appended = await first.append(_APPEND_TIMEOUT)
        except Fenced:
            return await self._existing_child(key, lineage)
        self._runs.publish_soon(key, 1, first.run_request(appended), first.priority)
        return TaskStarted(
            task=task,
            log=first.stamp.log,
            context=context,
            run=1,
            sequence=appended.sequence,
            input=first.line().decode(),
        )

    async def _existing_child(self, key: TaskKey, lineage: Lineage) -> TaskStarted:
        """Return the child started before; the sweep publishes its run if it never was."""
        first = await next_stored(self._bus, key, 0)
        entry = first.entry if first is not None else None
        task = {} if entry is None else orjson.loads(entry.lines[0]).get("task", {})
        if entry is None or not lineage.is_same_question(Lineage.of(task.get("metadata") or {})):
            raise StartRefused("busy", f"task {key.task} belongs to another delegation")
        return TaskStarted(
            task=key.task,
            log=entry.stamp.log,
            context=task["contextId"],
            run=1,
            sequence=entry.sequence,
            again=True,
        )


def _parent_of(query: StartTask) -> TaskKey:
    """Return the key of the parent's log, after checking all names that go into subjects."""
    if not all(map(is_token, (query.tenant, query.agent, query.parent_agent))):
        raise InvalidName("agent", query.agent, "is not an agent name")
    if query.priority not in (*PRIORITIES, NORMAL):
        raise InvalidName("priority", query.priority, "is not a priority")
    return TaskKey(query.tenant, query.parent_agent, _checked(query.parent))


def _checked(task: str) -> str:
    try:
        return check_task_id(task)
    except InvalidName:
        raise TaskUnknown from None


def _check_asks(query: StartTask, last: Entry) -> None:
    """Check that the parent's run continues and that no later attempt has taken it over."""
    stamp = last.stamp
    if last.ends_run or stamp.run != query.run or stamp.attempt > query.attempt:
        raise StartRefused("run_over", f"run {query.run} of {query.parent} is over")
