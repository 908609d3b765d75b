"""Start the child tasks that agents request, and give them their parents' answers, each once.

`for_workers` cancels them.
"""

import asyncio
from dataclasses import dataclass

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay, writer_of
from headrace.log.read import next_stored
from headrace.model import json_text
from headrace.model.agent_route import UNPINNED
from headrace.model.delegation import DELEGATION, Lineage, child_task_id, why_no_message
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, InvalidName, StartRefused, TaskUnknown
from headrace.model.events import TASK_ALREADY_SENT, VERSION, Json
from headrace.model.messages import StartTask, TaskStarted
from headrace.model.queues import PRIORITIES
from headrace.model.run import Run, RunTerms
from headrace.model.subjects import NORMAL, is_token
from headrace.model.task import INPUT_REQUIRED, TaskKey, check_task_id
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import first_input
from headrace.tasks.continue_ import behind_question, next_input
from headrace_task_state.settings import TaskStateSettings

_APPEND_TIMEOUT = 3.0
_ROUNDS = 3


class ChildStarter:
    """Answers ``start``."""

    def __init__(self, bus: Bus, directory: Directory, settings: TaskStateSettings) -> None:
        """Start agents in `directory`, within the depth and number that `settings` allow."""
        self._bus, self._directory, self._settings = bus, directory, settings
        self._runs = BackgroundRuns(bus)
        self._continuer = ChildContinuer(bus, directory, self._runs)

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
        _check_is_current(query, last)
        lineage = await self._lineage(query, first.entry)
        context = str(first.entry.events[0].get("task", {}).get("contextId", ""))
        owner = first.entry.stamp.owner or ""
        if query.into is not None:
            key = TaskKey(query.tenant, query.agent, _checked(query.into))
            started = await self._continuer.continue_child(query, key, lineage, owner)
        else:
            version = self._version(query, first.entry, context)
            started = await self._begin(query, lineage, context, owner, version)
        return started.model_dump(exclude_none=True)

    async def _lineage(self, query: StartTask, first: Entry) -> Lineage:
        above = Lineage.of(_metadata_of(first))
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
        if await self._directory.find_card(agent) is None:
            raise StartRefused("agent_unknown", f"agent {agent!r} does not exist")
        if len(path) > (most := self._settings.delegation_depth):
            raise StartRefused("too_deep", f"the delegation depth is limited to {most}: {chain}")
        if path.count(agent) >= (most := self._settings.delegation_repeats):
            times = "once" if most == 1 else f"{most} times"
            reason = f"an agent may occur {times} in a chain of delegations: {chain}"
            raise StartRefused("repeated", reason)

    def _version(self, query: StartTask, first: Entry, context: str) -> str | None:
        """Return the version that the child is pinned to.

        An agent that delegates to itself stays with its version.
        """
        own = _metadata_of(first).get(VERSION) if query.agent == query.parent_agent else None
        route = self._directory.route(query.agent)
        version = own or route.version_for(query.agent, query.tenant, context)
        return version or None

    async def _begin(
        self, query: StartTask, lineage: Lineage, context: str, owner: str, version: str | None
    ) -> TaskStarted:
        task = child_task_id(query.parent, query.run, query.agent, query.name)
        key = TaskKey(query.tenant, query.agent, task)
        metadata = {
            DELEGATION: lineage.to_json(),
            TASK_ALREADY_SENT: True,
            **_terms_of(query, version).metadata(),
        }
        first = first_input(
            self._bus,
            key,
            context,
            _message_of(query, task),
            metadata,
            owner=owner,
            writer=writer_of("task-state"),
        )
        try:
            appended = await first.append(_APPEND_TIMEOUT)
        except Fenced:
            return await self._existing_child(key, lineage)
        self._runs.publish_soon(first.stored_run(appended))
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
        task = {} if entry is None else json_text.decode(entry.lines[0]).get("task", {})
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


def _check_is_current(query: StartTask, last: Entry) -> None:
    """Check that the parent's run continues and that no later attempt has taken it over."""
    stamp = last.stamp
    if last.ends_run or stamp.run != query.run or stamp.attempt > query.attempt:
        raise StartRefused("run_over", f"run {query.run} of {query.parent} is over")


@dataclass(frozen=True, slots=True)
class _ChildMessage:
    """A message to a child that waits for input."""

    query: StartTask
    key: TaskKey
    """The child."""
    lineage: Lineage
    owner: str
    pinned: str | None
    """The version that the child was begun with."""


class ChildContinuer:
    """Continues children that wait for input."""

    def __init__(self, bus: Bus, directory: Directory, runs: BackgroundRuns) -> None:
        """Append on `bus`, publish run requests with `runs`, follow the routes in `directory`."""
        self._bus, self._directory, self._runs = bus, directory, runs

    async def continue_child(
        self, query: StartTask, key: TaskKey, lineage: Lineage, owner: str
    ) -> TaskStarted:
        """Append the message as the child's next input; if it is there already, return that input.

        Raises:
            StartRefused: the child does not wait for input.
            TaskUnknown: the parent has no such child.
            BusUnavailable: NATS does not answer.
        """
        question = _ChildMessage(query, key, lineage, owner, await self._pinned(query, key, owner))
        for _ in range(_ROUNDS):
            last = await last_entry(self._bus, key)
            if last is None:
                break
            if (there := await self._find(key, last, lineage)) is not None:
                return _started(key, last.stamp.log, there, again=True)
            if last.stamp.state != INPUT_REQUIRED:
                raise StartRefused("not_waiting", f"task {key.task} is not waiting for input")
            try:
                return await self._append(question, last)
            except Fenced:
                continue
        raise TaskUnknown

    async def _pinned(self, query: StartTask, key: TaskKey, owner: str) -> str | None:
        """Return the version that the child was begun with, after checking whose child it is."""
        first = await next_stored(self._bus, key, 0)
        entry = first.entry if first is not None else None
        metadata = {} if entry is None else _metadata_of(entry)
        lineage = Lineage.of(metadata)
        if entry is None or lineage is None:
            raise TaskUnknown
        # Another agent's workers may write a log with the parent's id below their own agent.
        if (lineage.parent, lineage.agent) != (query.parent, query.parent_agent):
            raise TaskUnknown
        if entry.stamp.owner != owner:
            raise TaskUnknown
        version = metadata.get(VERSION)
        return version if isinstance(version, str) else None

    async def _append(self, question: "_ChildMessage", last: Entry) -> TaskStarted:
        query, key = question.query, question.key
        context, generation = _context_of(last), last.last_generation + 1
        version = self._directory.route(key.agent).continues(question.pinned)
        message = _message_of(query, key.task)
        metadata = {DELEGATION: question.lineage.to_json(), **_terms_of(query).metadata()}
        metadata |= behind_question(last.events[-1]["statusUpdate"]["status"])
        if version != question.pinned:
            metadata[VERSION] = version or UNPINNED
        terms = RunTerms(version=version)
        run = Run(key, generation, last.stamp.log, context, question.owner, terms)
        following = next_input(
            self._bus, run, last.sequence, message, metadata, writer=writer_of("task-state")
        )
        appended = await following.append(_APPEND_TIMEOUT)
        self._runs.publish_soon(following.stored_run(appended))
        return _started(key, run.log, (generation, appended.sequence, context))

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


def _metadata_of(first: Entry) -> Json:
    """Return the metadata of the event that began a log."""
    return first.events[0].get("task", {}).get("metadata") or {}


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


def _message_of(query: StartTask, task: str) -> Json:
    """Return the child's message, with the child's id in its own and a reference to the parent."""
    referred = [one for one in query.message.get("referenceTaskIds", []) if one != query.parent]
    return {
        **query.message,
        "messageId": query.message.get("messageId") or f"{task}-{query.run}",
        "role": "ROLE_USER",
        "referenceTaskIds": [query.parent, *referred],
    }


def _terms_of(query: StartTask, version: str | None = None) -> RunTerms:
    """Return the terms of a child's run, stored with its input for later requests of the run."""
    return RunTerms(query.priority, version, traceparent=query.traceparent or None)
