"""What runs wait for: the ends of other tasks, and events on subjects."""

from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.find import locate
from headrace.model.errors import InvalidName, TaskUnknown
from headrace.model.events import timestamp
from headrace.model.messages import WaitForEnd, WaitForEvent, WokenRun
from headrace.model.subjects import is_token
from headrace.model.task import TaskKey, check_task_id
from headrace.model.wait import awaited_task, task_source
from headrace.tasks.end import owner_of
from headrace.triggers import TooManyTriggers, Trigger, may_use, waiting_name
from headrace.webhooks import TaskWebhook, TooManyWebhooks, waking_webhook

type Wait = WaitForEnd | WaitForEvent

_LONGEST_CIRCLE = 16
"""Tasks that wait for each other in turn, and are noticed."""


class WaitCommands:
    """Carries out the requests of runs that wait."""

    def __init__(
        self,
        bus: Bus,
        watch: Callable[[TaskKey, TaskWebhook], Awaitable[None]],
        listen: Callable[[Trigger], Awaitable[None]],
        subjects: list[str],
    ) -> None:
        """Read logs on `bus`.

        `watch` has a task's end delivered to a webhook, and `listen` has a trigger take events.
        `subjects` are those on which tenants may wait for events, as in HEADRACE_TRIGGER_SUBJECTS.
        """
        self._bus, self._watch, self._listen, self._subjects = bus, watch, listen, subjects

    async def execute(self, query: Wait) -> None:
        """Have what `query` names wake the run. A repeated request changes nothing.

        Raises:
            TaskUnknown: The owner of the run has no such task.
            InvalidName: The run's tenant may not use the subject, or has too many such waits, or
                what is to match is malformed; or the other task waits for the run's, or too many
                runs wait for its end.
            BusUnavailable: NATS does not answer.
        """
        if not all(map(is_token, (query.tenant, query.agent))):
            raise TaskUnknown
        key = TaskKey(query.tenant, query.agent, check_task_id(query.task))
        if (owner := await owner_of(self._bus, key)) is None:
            raise TaskUnknown
        match query:
            case WaitForEnd():
                await self._watch_end(key, owner, query)
            case WaitForEvent():
                await self._listen_for(key, owner, query)

    async def _watch_end(self, key: TaskKey, owner: str, query: WaitForEnd) -> None:
        try:
            awaited = await locate(self._bus, query.awaited)
        except InvalidName:
            raise TaskUnknown from None
        if awaited.tenant != key.tenant or await owner_of(self._bus, awaited) != owner:
            raise TaskUnknown
        if await self._waits_for(awaited, key.task):
            rule = "can't be waited for: it waits for the end of this one"
            raise InvalidName("task", awaited.task, rule)
        run = _woken(key, query.run, task_source(awaited.task))
        try:
            await self._watch(awaited, waking_webhook(owner, run))
        except TooManyWebhooks as refused:
            raise InvalidName("task", awaited.task, f"can't be waited for: {refused}") from None

    async def _waits_for(self, key: TaskKey, task: str) -> bool:
        """Return whether the task at `key` waits for the end of `task`, maybe through others."""
        for _ in range(_LONGEST_CIRCLE):
            last = await last_entry(self._bus, key)
            awaited = None if last is None or last.ends_run else awaited_task(last.events[-1])
            if awaited is None or awaited == task:
                return awaited == task
            try:
                key = await locate(self._bus, awaited)
            except (InvalidName, TaskUnknown):  # An agent's worker writes what it likes.
                return False
        return False

    async def _listen_for(self, key: TaskKey, owner: str, query: WaitForEvent) -> None:
        trigger = self._trigger(key, owner, query)
        if not may_use(trigger.subject, key.tenant, self._subjects, self._bus.settings.prefix):
            raise InvalidName(
                "subject", query.subject, "is none that the tenant may use (docs/triggers.md)"
            )
        try:
            await self._listen(trigger)
        except TooManyTriggers as refused:
            raise InvalidName("subject", query.subject, f"can't be waited for: {refused}") from None

    def _trigger(self, key: TaskKey, owner: str, query: WaitForEvent) -> Trigger:
        run = _woken(key, query.run, query.source)
        try:
            return Trigger(
                name=waiting_name(run),
                agent=key.agent,
                subject=query.subject,
                stream=query.stream,
                filter=query.match,
                tenant=key.tenant,
                owner=owner,
                since=timestamp(clock.now()),
                event_streams=self._bus.settings.event_streams,
                wakes=run,
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            rule = f"can't be waited for: {where}: {first['msg']}"
            raise InvalidName("subject", query.subject, rule) from None


def _woken(key: TaskKey, run: int, source: str) -> WokenRun:
    return WokenRun(agent=key.agent, task=key.task, run=run, source=source)
