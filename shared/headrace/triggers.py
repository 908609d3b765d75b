"""Triggers: what begins a task of an agent for each event on a subject.

They are kept in a bucket, under the tenant and the trigger's name. Gateways write them for their
owners, and the triggers service reads them.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model.errors import HeadraceError
from headrace.model.event_template import (
    Event,
    PathMissing,
    Scalar,
    filled,
    why_no_path,
    why_no_template,
)
from headrace.model.events import Json
from headrace.model.queues import DEFAULT_TENANT
from headrace.model.subjects import LONGEST_CONTEXT, check_agent_name, decode_token

_ROUNDS = 5
_LITERAL = r"[^\s.*>{}$_][^\s.*>{}]*"
_SUBJECT = re.compile(rf"{_LITERAL}(\.(\*|[^\s.*>]+))*(\.>)?")


class TriggerUnknown(HeadraceError):
    """The tenant has no trigger of this name that the caller may see."""

    code = "trigger_unknown"


class TriggerTaken(HeadraceError):
    """Another owner of the tenant has a trigger of this name."""

    code = "trigger_taken"


class Condition(BaseModel):
    """What a value in an event must be."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    exists: bool = True
    """Whether there must be a value."""
    min: float | None = None
    max: float | None = None
    """Bounds of a number."""

    def holds(self, event: Event, path: str) -> bool:
        """Return whether it holds for the value at `path`."""
        if not event.has(path) or not self.exists:
            return event.has(path) == self.exists
        if self.min is None and self.max is None:
            return True
        value = event.at(path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


type Expected = Condition | list[Scalar] | Scalar


class TriggerSpec(BaseModel):
    """A trigger as its owner declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    agent: str
    subject: str
    """NATS subject of the events; ``*`` and ``>`` may follow its first token."""
    stream: Annotated[str | None, Field(pattern=r"^[^\s.*>/\\]{1,255}$")] = None
    """JetStream stream that stores the events. None: they come over core NATS, at most once."""
    filter: dict[str, Expected] = Field(default_factory=dict)
    """By path: a value, a list of values, or a condition. All must hold."""
    text: str | None = None
    """Template of the message's text."""
    data: dict[str, str] | None = None
    """Members of the message's data part, each with its path."""
    context: str | None = None
    """Template of the context id. None: each task has its own."""
    priority: Literal["high", "normal", "low"] = "normal"
    limit: int = Field(default=64, ge=1, le=10_000)
    """Most events in progress at a time; the others wait in their stream."""
    paused: bool = False
    """Whether events wait in their stream."""

    @field_validator("agent")
    @classmethod
    def _is_agent(cls, agent: str) -> str:
        try:
            return check_agent_name(agent)
        except HeadraceError as error:
            raise ValueError(str(error)) from None

    @field_validator("subject")
    @classmethod
    def _is_subject(cls, subject: str) -> str:
        if not _SUBJECT.fullmatch(subject):
            raise ValueError("must be a NATS subject whose first token is a name without $ and _")
        return subject

    @field_validator("filter")
    @classmethod
    def _has_paths(cls, conditions: dict[str, Expected]) -> dict[str, Expected]:
        return _checked(conditions, [why_no_path(path) for path in conditions])

    @field_validator("data")
    @classmethod
    def _has_paths_in_data(cls, data: dict[str, str] | None) -> dict[str, str] | None:
        return _checked(data, [why_no_path(path) for path in (data or {}).values()])

    @field_validator("text", "context")
    @classmethod
    def _is_template(cls, template: str | None) -> str | None:
        return _checked(template, [why_no_template(template or "")])

    @model_validator(mode="after")
    def _can_wait(self) -> Self:
        if self.paused and self.stream is None:
            raise ValueError("paused: events over core NATS can't wait; name a stream")
        return self

    def matches(self, event: Event) -> bool:
        """Return whether the event fires the trigger."""
        return all(_holds(expected, event, path) for path, expected in self.filter.items())

    def parts(self, event: Event) -> list[Json]:
        """Return the parts of the event's message.

        Without `text` and `data` it is the event's body: a data part, or its text.

        Raises:
            PathMissing: the event lacks a value that a template needs.
        """
        parts = list[Json]()
        if self.text is not None:
            parts.append({"text": filled(self.text, event)})
        if self.data is not None:
            parts.append({"data": {name: event.at(path) for name, path in self.data.items()}})
        if parts:
            return parts
        return [{"text": event.body} if isinstance(event.body, str) else {"data": event.body}]

    def context_of(self, event: Event) -> str | None:
        """Return the context id of the event's task; None: one of its own.

        Raises:
            PathMissing: the event lacks a value that the template needs, or it is no context id.
        """
        if self.context is None:
            return None
        context = filled(self.context, event)
        if not 0 < len(context) <= LONGEST_CONTEXT:
            raise PathMissing(f"a context id has 1 to {LONGEST_CONTEXT} characters")
        return context


def _checked[T](value: T, complaints: list[str | None]) -> T:
    for why in complaints:
        if why is not None:
            raise ValueError(why)
    return value


def _holds(expected: Expected, event: Event, path: str) -> bool:
    if isinstance(expected, Condition):
        return expected.holds(event, path)
    values = expected if isinstance(expected, list) else [expected]
    return event.has(path) and any(_is_same(event.at(path), value) for value in values)


def _is_same(found: object, value: Scalar) -> bool:
    # To Python, 1 is True.
    return found == value and isinstance(found, bool) == isinstance(value, bool)


class Trigger(TriggerSpec):
    """A trigger as it is kept."""

    tenant: str
    owner: str
    """Whose tasks it begins; tenant and owner as subject tokens."""
    since: str
    """RFC 3339; older events do not fire it."""
    event_streams: int
    """Number of event streams when it was made, from which task ids are derived."""

    @property
    def source(self) -> str:
        """Its name as a source of firings."""
        return f"trigger/{self.name}"

    @property
    def identity(self) -> str:
        """All of it, as a text: triggers with the same one are the same."""
        return self.model_dump_json()

    def shown(self) -> Json:
        """Return it as its owner sees it."""
        spec = TriggerSpec.model_validate(self.model_dump(include=set(TriggerSpec.model_fields)))
        shown: Json = spec.model_dump(mode="json", exclude_defaults=True)
        return {**shown, "owner": decode_token(self.owner), "since": self.since}


class TriggerStore:
    """The kept triggers."""

    def __init__(self, bus: Bus) -> None:
        """Use the bucket on `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.triggers)

    @property
    def subject(self) -> str:
        """The subject on which changes are heard."""
        return f"{self._bucket.prefix}>"

    async def put(self, spec: TriggerSpec, tenant: str, owner: str) -> tuple[Trigger, bool]:
        """Make the trigger, or change it. Return it, and whether it is new.

        One that is changed still fires for events since it was made.

        Raises:
            TriggerTaken: another owner has one of this name.
            BusUnavailable: NATS does not answer.
        """
        for _ in range(_ROUNDS):
            found = await self._bucket.get(_key(tenant, spec.name))
            before = None if found.data is None else _read(found.data)
            if before is not None and before.owner != owner:
                raise TriggerTaken(f"trigger {spec.name!r} belongs to another owner")
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            trigger = Trigger(
                **spec.model_dump(),
                tenant=tenant,
                owner=owner,
                since=now if before is None else before.since,
                event_streams=(
                    self._bus.settings.event_streams if before is None else before.event_streams
                ),
            )
            data = orjson.dumps(trigger.model_dump(mode="json"))
            try:
                await self._bucket.put(_key(tenant, spec.name), data, found.sequence)
            except KeyChanged:
                continue
            return trigger, before is None
        raise KeyChanged(f"trigger {spec.name!r} is being changed by others")

    async def get(self, tenant: str, name: str) -> Trigger:
        """Return the trigger of that name.

        Raises:
            TriggerUnknown: the tenant has none.
            BusUnavailable: NATS does not answer.
        """
        found = await self._bucket.get(_key(tenant, name))
        trigger = None if found.data is None else _read(found.data)
        if trigger is None:
            raise TriggerUnknown(f"trigger {name!r} does not exist")
        return trigger

    async def delete(self, trigger: Trigger) -> None:
        """Delete the trigger; its events wait no longer.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        await self._bucket.delete(_key(trigger.tenant, trigger.name))

    async def all(self, tenant: str | None = None) -> list[Trigger]:
        """Return the triggers of a tenant, or of all, by name.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        copy = await self._bucket.copy()
        read = (_read(one.data) for _, one in sorted(copy.items()))
        return [one for one in read if one is not None and tenant in (None, one.tenant)]


def _key(tenant: str, name: str) -> str:
    return f"event.{tenant}.{name}"


def _read(data: bytes) -> Trigger | None:
    """Return the trigger in `data`. None: another version wrote it, and this one can't read it."""
    try:
        return Trigger.model_validate_json(data)
    except ValidationError:
        return None


def may_use(subject: str, tenant: str, allowed: list[str], prefix: str) -> bool:
    """Return whether the tenant, a token, may have events on `subject` begin its tasks.

    `allowed` are subjects in which ``{tenant}`` stands for the tenant; those without it are the
    default tenant's. If it is empty, the default tenant may use every subject, and others none.
    The fleet's own subjects, below `prefix`, are nobody's.
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
    tokens, asked = pattern.split("."), subject.split(".")
    for position, one in enumerate(tokens):
        if one == ">":
            return len(asked) > position
        if position >= len(asked) or asked[position] == ">":
            return False
        if one not in {"*", asked[position]}:
            return False
    return len(tokens) == len(asked)


def overlap(one: str, other: str) -> bool:
    """Return whether a subject exists that both patterns match."""
    for mine, its in zip(one.split("."), other.split("."), strict=False):
        if ">" in (mine, its):
            return True
        if "*" not in (mine, its) and mine != its:
            return False
    return one.count(".") == other.count(".")


def problem_of(invalid: ValidationError) -> str:
    """Return the first complaint about a declaration: the field and the rule."""
    [first, *_] = invalid.errors(include_url=False, include_input=False)
    where = ".".join(map(str, first["loc"])) or "trigger"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def read_spec(declared: Mapping[str, object]) -> TriggerSpec:
    """Return the trigger that is declared.

    Raises:
        ValueError: it breaks a rule; the message names the field and the rule.
    """
    try:
        return TriggerSpec.model_validate(declared)
    except ValidationError as invalid:
        raise ValueError(problem_of(invalid)) from None
