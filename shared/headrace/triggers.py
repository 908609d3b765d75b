"""Triggers: what begins a task of an agent for each event on a subject.

They are kept in a bucket, under the tenant, the owner and the trigger's name. Gateways write them
for their owners, and the triggers service reads them.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model import json_text
from headrace.model.errors import HeadraceError
from headrace.model.events import Json, timestamp
from headrace.model.messages import WokenRun
from headrace.model.queues import DEFAULT_TENANT
from headrace.model.subjects import decode_token
from headrace.number_limit import NumberLimit
from headrace.trigger_spec import TriggerSpec

MOST_PER_OWNER = 100
"""Maximum number of triggers per owner; each replica subscribes to each."""

_ROUNDS = 5
_KEYS = "event.>"
"""The keys of triggers in the bucket."""


class TriggerUnknown(HeadraceError):
    """The owner has no trigger of this name that the caller may see."""

    code = "trigger_unknown"


class TooManyTriggers(HeadraceError):
    """The owner has the maximum number of triggers."""

    code = "too_many_triggers"


class TriggerTooNew(HeadraceError):
    """The trigger has fields of a later release; a gateway of that release must change it."""

    code = "trigger_too_new"
    retryable = True


class EventsUnstored(HeadraceError):
    """No stream stores the trigger's events, so they can't wait and it can't be paused."""

    code = "events_unstored"


class Trigger(TriggerSpec):
    """A trigger as it is kept."""

    tenant: str
    owner: str
    """Whose tasks it begins; tenant and owner as subject tokens."""
    since: str
    """RFC 3339; older events do not fire it."""
    event_streams: int
    """Number of event streams when it was made, from which task ids are derived."""
    wakes: WokenRun | None = None
    """The run that the first event wakes. None: each event begins a task."""

    @property
    def key(self) -> str:
        """Its key in the bucket."""
        return _key(self.tenant, self.owner, self.name)

    @property
    def source(self) -> str:
        """Its name as a source of firings, unique in its tenant."""
        return f"trigger/{self.owner}/{self.name}"

    @property
    def consumer(self) -> str:
        """The name of the replicas' consumer; another subject has another one."""
        place = f"{self.tenant}\x00{self.owner}\x00{self.subject}\x00{self.since}".encode()
        return f"headrace-{self.name}-{hashlib.sha256(place).hexdigest()[:16]}"

    @property
    def mark(self) -> str:
        """What identifies it in the answers of its tasks; tells nothing of its owner."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

    @property
    def identity(self) -> str:
        """All of it, as a text: triggers with the same one are the same."""
        return self.model_dump_json()

    def shown(self) -> Json:
        """Return what its owner is shown."""
        spec = TriggerSpec.model_validate(self.model_dump(include=set(TriggerSpec.model_fields)))
        shown: Json = spec.model_dump(mode="json", exclude_defaults=True)
        return {**shown, "owner": decode_token(self.owner), "since": self.since}


@dataclass(frozen=True, slots=True)
class UnreadableTrigger:
    """A kept trigger that this release can't read."""

    owner: str
    """As a subject token."""
    name: str


class TriggerStore:
    """The kept triggers. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus, most_per_owner: int = MOST_PER_OWNER) -> None:
        """Use the bucket on `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.triggers)
        self._most_per_owner = most_per_owner

    @property
    def subject(self) -> str:
        """The subject on which changes are heard."""
        return f"{self._bucket.prefix}{_KEYS}"

    async def put(self, spec: TriggerSpec, tenant: str, owner: str) -> tuple[Trigger, bool]:
        """Make the trigger, or change it. Return it, and whether it is new.

        One that is changed still fires for events since it was made, and stays paused unless `spec`
        states whether it is.

        Raises:
            TooManyTriggers: the owner has the maximum number of triggers.
            TriggerTooNew: a later release wrote that.
        """

        def put_over(before: Trigger | None) -> Trigger:
            stated = spec.model_dump()
            if before is not None and "paused" not in spec.model_fields_set:
                # Events over core NATS can't wait.
                stated["paused"] = before.paused and spec.stream is not None
            return Trigger(
                **stated,
                tenant=tenant,
                owner=owner,
                since=timestamp(clock.now()) if before is None else before.since,
                event_streams=(
                    self._bus.settings.event_streams if before is None else before.event_streams
                ),
            )

        return await self._change(tenant, owner, spec.name, put_over)

    def _limit(self, tenant: str, owner: str) -> NumberLimit:
        async def count() -> int:
            return len(await self._bucket.copy(_key(tenant, owner, "*")))

        most = self._most_per_owner
        refusal = TooManyTriggers(f"an owner may have at most {most} triggers; delete one")
        return NumberLimit(most, count, refusal)

    async def wait(self, trigger: Trigger) -> None:
        """Keep a trigger that wakes a run; one that is there already stays.

        Raises:
            TooManyTriggers: The owner has the maximum number of triggers, with those that wait.
        """
        data = json_text.encode(trigger.model_dump(mode="json", exclude_defaults=True))
        put = partial(self._bucket.put, trigger.key, data, 0)
        take_back = partial(self._bucket.delete_revision, trigger.key)
        if (await self._bucket.get(trigger.key)).data is None:
            with suppress(KeyChanged):
                await self._limit(trigger.tenant, trigger.owner).add(put, take_back)

    async def pause(self, trigger: Trigger) -> Trigger:
        """Let the trigger's events wait in their stream, and return it as it is now.

        Raises:
            TriggerUnknown: it was deleted.
            EventsUnstored: no stream stores them.
        """

        def paused(before: Trigger | None) -> Trigger:
            found = _existing(before, trigger)
            if found.stream is None:
                raise EventsUnstored(
                    f"trigger {found.name!r} can't be paused: events over core NATS can't wait"
                )
            return found.model_copy(update={"paused": True})

        return (await self._change(trigger.tenant, trigger.owner, trigger.name, paused))[0]

    async def resume(self, trigger: Trigger) -> Trigger:
        """Let the events of a paused trigger begin tasks again, and return it as it is now.

        Raises:
            TriggerUnknown: it was deleted.
        """

        def resumed(before: Trigger | None) -> Trigger:
            return _existing(before, trigger).model_copy(update={"paused": False})

        return (await self._change(trigger.tenant, trigger.owner, trigger.name, resumed))[0]

    async def _change(
        self, tenant: str, owner: str, name: str, change: Callable[[Trigger | None], Trigger]
    ) -> tuple[Trigger, bool]:
        """Change the owner's trigger of that name, or make it; return it, and whether it is new."""
        for _ in range(_ROUNDS):
            key = _key(tenant, owner, name)
            found = await self._bucket.get(key)
            before = _known(name, found.data)
            changed = change(before)
            data = json_text.encode(changed.model_dump(mode="json", exclude_defaults=True))
            put = partial(self._bucket.put, key, data, found.sequence)
            try:
                if before is None:
                    take_back = partial(self._bucket.delete_revision, key)
                    await self._limit(tenant, owner).add(put, take_back)
                else:
                    await put()
            except KeyChanged:
                continue
            return changed, before is None
        raise KeyChanged(f"trigger {name!r} is being changed concurrently")

    async def get(self, tenant: str, owner: str, name: str) -> Trigger:
        """Return the owner's trigger of that name.

        Raises:
            TriggerUnknown: the owner has none.
            TriggerTooNew: a later release wrote it.
        """
        trigger = _known(name, (await self._bucket.get(_key(tenant, owner, name))).data)
        if trigger is None:
            raise _unknown(name)
        return trigger

    async def needs(self, key: str, stream: str, consumer: str) -> bool:
        """Return whether the trigger with that key takes its events by the consumer of `stream`.

        One that another version wrote, and this one can't read, is taken to.
        """
        found = await self._bucket.get(key)
        if found.data is None:
            return False
        trigger = _read(found.data)
        return trigger is None or (trigger.stream, trigger.consumer) == (stream, consumer)

    async def delete(self, trigger: Trigger) -> None:
        """Delete the trigger; its events wait no longer."""
        await self._bucket.delete(trigger.key)

    async def all(self, tenant: str | None = None, owner: str | None = None) -> list[Trigger]:
        """Return the triggers of a tenant's owner, of a tenant, or of all; no unreadable ones.

        They include those that wake runs.
        """
        return (await self._read(tenant, owner))[0]

    async def listed(
        self, tenant: str | None = None, owner: str | None = None
    ) -> tuple[list[Trigger], list[UnreadableTrigger]]:
        """Return those that owners have declared, by owner and name, and the unreadable ones."""
        triggers, unreadable = await self._read(tenant, owner)
        return [one for one in triggers if one.wakes is None], unreadable

    async def _read(
        self, tenant: str | None, owner: str | None
    ) -> tuple[list[Trigger], list[UnreadableTrigger]]:
        triggers, unreadable = list[Trigger](), list[UnreadableTrigger]()
        found = await self._bucket.copy(_key(tenant or "*", owner or "*", "*"))
        for key, one in sorted(found.items()):
            if (trigger := _read(one.data)) is not None:
                triggers.append(trigger)
            else:
                unreadable.append(UnreadableTrigger(*key.split(".")[2:]))
        return triggers, unreadable


def waiting_name(run: WokenRun) -> str:
    """Return the name of the trigger that wakes `run`."""
    named = f"{run.task} {run.run} {run.source}".encode()
    return f"wait-{hashlib.sha256(named).hexdigest()[:32]}"


def _key(tenant: str, owner: str, name: str) -> str:
    return f"event.{tenant}.{owner}.{name}"


def _existing(found: Trigger | None, sought: Trigger) -> Trigger:
    """Return the trigger that was found.

    Raises:
        TriggerUnknown: it was deleted.
    """
    if found is None:
        raise _unknown(sought.name)
    return found


def _unknown(name: str) -> TriggerUnknown:
    return TriggerUnknown(f"trigger {name!r} does not exist")


def _known(name: str, data: bytes | None) -> Trigger | None:
    """Return the trigger in `data`. None: there is none.

    Raises:
        TriggerTooNew: this release can't read it.
    """
    if data is None:
        return None
    if (trigger := _read(data)) is None:
        raise TriggerTooNew(
            f"trigger {name!r} was written by a later release; use one of its gateways"
        )
    return trigger


def _read(data: bytes) -> Trigger | None:
    """Return the trigger in `data`. None: another version wrote it, and this one can't read it."""
    try:
        return Trigger.model_validate_json(data)
    except ValidationError:
        return None


def may_use(subject: str, tenant: str, allowed: list[str], prefix: str) -> bool:
    """Return whether the tenant, a token, may have events on `subject` begin its tasks.

    `allowed` are subjects in which ``{tenant}`` is replaced by the tenant; those without it are the
    default tenant's. If it is empty, the default tenant may use every subject, and others none.
    The fleet's own subjects, below `prefix`, are never allowed.
    """
    if overlap(subject, f"{prefix}.>"):
        return False
    if not allowed:
        return tenant == DEFAULT_TENANT
    own = [one.replace("{tenant}", tenant) for one in allowed if "{tenant}" in one]
    if tenant == DEFAULT_TENANT:
        own += [one for one in allowed if "{tenant}" not in one]
    return any(covers(one, subject) for one in own)


def covers(pattern: str, subject: str) -> bool:
    """Return whether every subject that `subject` matches is matched by `pattern`, too."""
    tokens, covered = pattern.split("."), subject.split(".")
    for position, one in enumerate(tokens):
        if one == ">":
            return len(covered) > position
        if position >= len(covered) or covered[position] == ">":
            return False
        if one not in {"*", covered[position]}:
            return False
    return len(tokens) == len(covered)


def overlap(one: str, other: str) -> bool:
    """Return whether a subject exists that both patterns match."""
    for mine, its in zip(one.split("."), other.split("."), strict=False):
        if ">" in (mine, its):
            return True
        if "*" not in (mine, its) and mine != its:
            return False
    return one.count(".") == other.count(".")
