"""A firing: what begins one task, for an event or by the clock.

The task's id is derived from the firing's source and key, and its log begins only if it is empty.
So a firing that is delivered again, by any replica and however often, begins no second task.
"""

import uuid
from dataclasses import dataclass, field

from headrace import tracing
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import writer_of
from headrace.model.answers import TaskAnswers
from headrace.model.delegation import why_no_message
from headrace.model.errors import EventTooLarge, Fenced, HeadraceError, TaskForgotten
from headrace.model.events import TASK_ALREADY_SENT, Json
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.run import RunTerms
from headrace.model.subjects import NORMAL
from headrace.model.task import SHARDS_PER_STREAM, TaskKey, derive_task_id, thread_token
from headrace.tasks.admission import RunLimits
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import Input, first_input
from headrace.webhooks import Webhooks, answers_webhook

TRIGGER = "headrace.trigger"
"""Metadata key of generation 1: the ``source`` and ``key`` of the firing that began the task, and
``at``, the time that it is for, if a schedule fired. Clients can't set metadata with our prefix."""

_APPEND_TIMEOUT = 3.0


class UndeliverableFiring(HeadraceError):
    """No task can be made of the event or tick, however often it is delivered."""

    code = "unfit"


class AgentMissing(HeadraceError):
    """The firing's agent is not known yet; a later delivery may find it."""

    code = "agent_missing"
    retryable = True


@dataclass(frozen=True, slots=True)
class Firing:
    """What begins one task."""

    source: str
    """What fired, such as ``trigger/ann/orders``; unique in its tenant."""
    key: str
    """What identifies the event or tick in its source."""
    tenant: str
    owner: str
    """Tenant and owner of the task, as subject tokens."""
    agent: str
    parts: list[Json]
    """The message's parts, as A2A's."""
    event_streams: int
    """The number of event streams when the source was declared. It stays, so that ids do, when
    streams are added."""
    context: str | None = None
    """None: a context of the task's own."""
    priority: str = NORMAL
    traceparent: str | None = None
    """W3C trace context of the event."""
    answers: TaskAnswers | None = None
    """Where the task's answers are published. None: nowhere."""
    at: str | None = None
    """The time that it is for, of a schedule: RFC 3339."""
    metadata: Json = field(default_factory=dict)
    """More metadata of the task's input."""

    @property
    def task_context(self) -> str:
        """The context of the task, always the same."""
        return self.context or str(uuid.uuid5(self._id, "context"))

    @property
    def task_key(self) -> TaskKey:
        """The key of the task, always the same."""
        shard = self._id.int % (self.event_streams * SHARDS_PER_STREAM)
        thread = thread_token(self.owner, self.task_context)
        task = derive_task_id(shard, f"{self.tenant}/{self.source}", self.key, thread)
        return TaskKey(self.tenant, self.agent, task)

    @property
    def _id(self) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"{self.tenant}/{self.source}\x00{self.key}")


@dataclass(frozen=True, slots=True)
class Fired:
    """A firing whose task has begun."""

    key: TaskKey
    is_new: bool
    """Whether this call began it."""


class Firings:
    """Begins the tasks of firings, each once."""

    def __init__(self, bus: Bus, directory: Directory, limits: RunLimits) -> None:
        """Begin tasks on `bus` of the agents in `directory`, within `limits`."""
        self._bus, self._directory, self._limits = bus, directory, limits
        self._runs, self._webhooks = BackgroundRuns(bus), Webhooks(bus)

    async def begin(self, firing: Firing) -> Fired:
        """Return once the task is in its log; its run request follows.

        Raises:
            UndeliverableFiring: the firing is no valid message, or too large for one.
            AgentMissing: no worker has announced the agent.
            QuotaExceeded: a quota of the tenant, the owner or the agent is used up.
            TooManyWaiting: as many runs as may wait for the agent.
            BusUnavailable: the log has not stored it, or not for certain.
        """
        key = firing.task_key
        _check_parts(firing)
        if await self._directory.find_card(firing.agent) is None:
            raise AgentMissing(f"{firing.source}: agent {firing.agent!r} does not exist")
        first = self._first_input(firing)
        try:
            with await self._limits.admit(key, firing.owner) as admitted:
                if firing.answers is not None:
                    # Before the task, so that none ends unheard.
                    webhook = answers_webhook(firing.owner, firing.answers)
                    await self._webhooks.create(key, webhook)
                appended = await first.append(_APPEND_TIMEOUT)
        except (Fenced, TaskForgotten):
            return Fired(key, is_new=False)
        except EventTooLarge as error:
            raise UndeliverableFiring(f"{firing.source}: {error}") from error
        self._runs.publish_soon(first.stored_run(appended), admitted.settle)
        return Fired(key, is_new=True)

    def _first_input(self, firing: Firing) -> Input:
        key, context = firing.task_key, firing.task_context
        message = {"messageId": f"{key.task}-1", "role": "ROLE_USER", "parts": firing.parts}
        return first_input(
            self._bus,
            key,
            context,
            message,
            self._metadata(firing, context),
            owner=firing.owner,
            writer=writer_of("trigger"),
        )

    def _metadata(self, firing: Firing, context: str) -> Json:
        at = {} if firing.at is None else {"at": firing.at}
        route = self._directory.route(firing.agent)
        version = route.version_for(firing.agent, firing.tenant, context)
        # If traces are on, the current span is that of handling the event: a child of its own.
        traceparent = tracing.current_traceparent() or firing.traceparent
        terms = RunTerms(firing.priority, version or None, traceparent=traceparent or None)
        return {
            **firing.metadata,
            TRIGGER: {"source": firing.source, "key": firing.key} | at,
            # No client waits for a bare Message.
            TASK_ALREADY_SENT: True,
            **terms.metadata(),
        }


def _check_parts(firing: Firing) -> None:
    """Check that the firing's parts make a message.

    Raises:
        UndeliverableFiring: they do not.
    """
    if (why := why_no_message({"parts": firing.parts})) is not None:
        raise UndeliverableFiring(f"{firing.source}: {why}")
    if any(is_too_deep(part.get("data")) for part in firing.parts):
        raise UndeliverableFiring(f"{firing.source}: data {RULE}")
