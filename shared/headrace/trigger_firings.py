"""What the last events of triggers have begun, what became of the others, and how many wait.

The triggers service writes a trigger's record about a second after an event. The records are for
people to look at: what a killed replica has not written is lost.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import BusMessage
from headrace.triggers import Trigger

KEPT_FIRINGS = 20
"""Number of last firings that are kept per trigger, and of last events that began no task."""

_KEPT_FOR = 30 * 24 * 3600
"""Seconds for which they are kept after the last one. A deleted trigger's expire, too."""

PROBLEM_SECONDS = 60
"""For which a problem is kept after it was last seen."""

_ROUNDS = 5
_TIMEOUT = 2.0


class TriggerFiring(BusMessage):
    """A firing of a trigger."""

    at: str
    """When its task began: RFC 3339."""
    agent: str
    task: str


class TriggerFailure(BusMessage):
    """An event that began no task and never will."""

    at: str
    """When it was given up: RFC 3339."""
    outcome: Literal["letter", "dropped"]
    """``letter``: it is a dead letter. ``dropped``: no dead letter could be stored."""
    reason: str
    stream: str | None = None
    sequence: int | None = None
    """Its place in its stream. None: it came over core NATS."""


class TriggerFirings(BusMessage):
    """The last firings and failures of a trigger, each oldest first."""

    since: str
    """That of the trigger. One that was deleted and made again has another one."""
    last: list[TriggerFiring] = Field(default_factory=list)
    """At most `KEPT_FIRINGS`."""
    failures: list[TriggerFailure] = Field(default_factory=list)
    """At most `KEPT_FIRINGS`."""
    letters: int = 0
    """Number of events that became dead letters."""
    dropped: int = 0
    """Number of events that were dropped."""


class TriggerProblem(BusMessage):
    """Why a trigger's events begin no tasks at the moment."""

    since: str
    """That of the trigger."""
    at: str
    """When it was seen: RFC 3339."""
    reason: str


class FiringHistory:
    """The records. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        """Use the triggers' bucket on `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.triggers)

    async def last(self, trigger: Trigger) -> list[TriggerFiring]:
        """Return the last firings, oldest first."""
        return (await self.record(trigger)).last

    async def record(self, trigger: Trigger) -> TriggerFirings:
        """Return what is recorded of the trigger's events."""
        return (await self._read(trigger))[0]

    async def add(
        self,
        trigger: Trigger,
        firings: Sequence[TriggerFiring],
        failures: Sequence[TriggerFailure] = (),
        *,
        letters: int = 0,
        dropped: int = 0,
    ) -> None:
        """Record firings and failures; firings whose task is recorded already are left out.

        `letters` and `dropped` are numbers of failures, of which `failures` has the last.

        Raises:
            KeyChanged: others change the record all the time.
        """
        for _ in range(_ROUNDS):
            known, sequence = await self._read(trigger)
            tasks = {one.task for one in known.last}
            new = [one for one in firings if one.task not in tasks]
            record = TriggerFirings(
                since=trigger.since,
                last=sorted([*known.last, *new], key=lambda one: one.at)[-KEPT_FIRINGS:],
                failures=sorted([*known.failures, *failures], key=lambda one: one.at)[
                    -KEPT_FIRINGS:
                ],
                letters=known.letters + letters,
                dropped=known.dropped + dropped,
            )
            try:
                await self._bucket.put(_key(trigger), record.encode(), sequence, seconds=_KEPT_FOR)
            except KeyChanged:
                continue
            return
        raise KeyChanged(f"the firings of {trigger.source} are being changed concurrently")

    async def note_problem(self, trigger: Trigger, at: str, reason: str) -> None:
        """Keep why the trigger's events begin no tasks, for `PROBLEM_SECONDS`."""
        problem = TriggerProblem(since=trigger.since, at=at, reason=reason)
        await self._bucket.overwrite(
            _problem_key(trigger), problem.encode(), seconds=PROBLEM_SECONDS
        )

    async def problem(self, trigger: Trigger) -> TriggerProblem | None:
        """Return why the trigger's events begin no tasks at the moment; None: nothing is known."""
        found = await self._bucket.get(_problem_key(trigger))
        return _problem_of(trigger, found.data)

    async def problems(
        self, tenant: str, triggers: Sequence[Trigger]
    ) -> Mapping[str, TriggerProblem]:
        """Return those of a tenant's triggers, by the trigger's key."""
        copied = await self._bucket.copy(f"{_PROBLEMS}.{tenant}.>") if triggers else {}
        found = {
            one.key: _problem_of(one, copied[key].data)
            for one in triggers
            if (key := _problem_key(one)) in copied
        }
        return {key: problem for key, problem in found.items() if problem is not None}

    async def waiting(self, trigger: Trigger) -> int | None:
        """Return how many events wait or are in progress.

        None: no service records them, the triggers service has not started yet, or NATS does not
        answer.
        """
        if trigger.stream is None:
            return None
        try:
            info = await consumer_info(self._bus, trigger.stream, trigger.consumer, _TIMEOUT)
        except BusUnavailable:
            return None
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _read(self, trigger: Trigger) -> tuple[TriggerFirings, int]:
        key = _key(trigger)
        found = await self._bucket.get(key)
        none = TriggerFirings(since=trigger.since)
        if found.data is None:
            return none, found.sequence
        record = TriggerFirings.decode(key, found.data)
        return record if record.since == trigger.since else none, found.sequence


_PROBLEMS = "fired.=problem"
"""No tenant is called so."""


def _key(trigger: Trigger) -> str:
    return f"fired.{trigger.key.partition('.')[2]}"


def _problem_key(trigger: Trigger) -> str:
    return f"{_PROBLEMS}.{trigger.key.partition('.')[2]}"


def _problem_of(trigger: Trigger, data: bytes | None) -> TriggerProblem | None:
    if data is None:
        return None
    try:
        problem = TriggerProblem.decode(trigger.key, data)
    except UndecodableMessage:
        return None  # A later release wrote it.
    return problem if problem.since == trigger.since else None
