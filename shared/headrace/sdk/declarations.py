"""Triggers and schedules declared above an agent: what begins its tasks besides requests.

They are data on the `Agent`. Commands make them: ``headrace triggers apply`` and ``headrace
schedules apply``, and ``headrace dev`` when it starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from headrace.model.event_template import Scalar
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.schedule_spec import NamedSchedule
from headrace.sdk.agent import Agent
from headrace.sdk.errors import Misdeclared
from headrace.sdk.source import called_at
from headrace.trigger_spec import TriggerSpec

type Filter = Mapping[str, Mapping[str, float] | Sequence[Scalar] | Scalar]
"""By path into the event: an object with ``min``, ``max`` and ``exists``, a list of values, or a
value."""

type Priority = Literal["high", "normal", "low"]


def on(  # noqa: PLR0913  # the fields of a trigger
    subject: str,
    *,
    name: str | None = None,
    stream: str | None = None,
    filter: Filter | None = None,  # noqa: A002  # as in headrace.yaml
    text: str | None = None,
    data: Mapping[str, str] | None = None,
    context: str | None = None,
    priority: Priority | None = None,
    limit: int | None = None,
    answers: Mapping[str, str | bool] | None = None,
    paused: bool = False,
) -> Callable[[Agent], Agent]:
    """Declare a trigger of the agent below: events on `subject` begin its tasks.

    Nothing begins until the trigger is stored: by ``headrace triggers apply MODULE:ATTR``, or by
    ``headrace dev`` when it starts.

    Args:
        subject: NATS subject of the events; ``*`` and ``>`` may follow its first token.
        name: Name of the trigger. None: the agent's.
        stream: The JetStream stream that stores the events. None: they come over core NATS.
        filter: Conditions on an event, by path: a value, a list of values, or a dict with
            ``min``, ``max`` and ``exists``.
        text: Template of the message's text, with paths in braces.
        data: Members of the message's data part, each with its path.
        context: Template of the context id. None: each task has its own.
        priority: Priority of the tasks. None: ``normal``.
        limit: Maximum number of events in progress at a time. None: 64.
        answers: What to publish of the tasks: a dict with ``subject``, ``stream`` and so on.
        paused: Whether events wait in their stream.

    Raises:
        Misdeclared: A value is invalid, the agent has another trigger of the name, or what is below
            is not an agent.
    """
    stated = {
        "subject": subject,
        "name": name,
        "stream": stream,
        "filter": filter,
        "text": text,
        "data": data,
        "context": context,
        "priority": priority,
        "limit": limit,
        "answers": answers,
        "paused": paused or None,
    }
    return _declaring(_TRIGGER, subject, stated)


def schedule(  # noqa: PLR0913  # the fields of a schedule
    message: str | Sequence[Json],
    *,
    name: str | None = None,
    at: datetime | str | None = None,
    every: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    overlap: Literal["skip", "queue", "replace"] | None = None,
    max_queued: int | None = None,
    jitter: float | None = None,
    end_at: datetime | str | None = None,
    max_firings: int | None = None,
    context: str | None = None,
    priority: Priority | None = None,
    answers: Mapping[str, str] | None = None,
) -> Callable[[Agent], Agent]:
    """Declare a schedule of the agent below: it begins tasks with `message` by the clock.

    Nothing begins until the schedule is stored: by ``headrace schedules apply MODULE:ATTR``, or by
    ``headrace dev`` when it starts. Exactly one of `at`, `every` and `cron` is required.

    Args:
        message: The message of each task: text, or A2A Parts with text or data.
        name: Name of the schedule. None: the agent's.
        at: The time of the only firing, with an offset from UTC.
        every: The time between two firings, such as ``90s`` or ``1h30m``; at least ``1s``.
        cron: A cron expression of five fields, or of six with seconds first.
        time_zone: IANA name of cron's time zone. None: UTC.
        overlap: What happens if the previous task has not ended. None: ``skip``.
        max_queued: Maximum number of firings that wait, with ``queue``. None: 10.
        jitter: Maximum of a random delay of each firing, in seconds.
        end_at: The time from which on it does not fire.
        max_firings: Number of tasks after which it ends.
        context: The conversation of the tasks. None: each has its own.
        priority: The priority of the tasks. None: that of the caller who stores it.
        answers: What to publish of the tasks: a dict with ``subject``, ``stream`` and so on.

    Raises:
        Misdeclared: A value is invalid, the agent has another schedule of the name, or what is
            below is not an agent.
    """
    stated = {
        "message": message,
        "name": name,
        "at": at,
        "every": every,
        "cron": cron,
        "timeZone": time_zone,
        "overlap": overlap,
        "maxQueued": max_queued,
        "jitter": jitter,
        "endAt": end_at,
        "maxFirings": max_firings,
        "contextId": context,
        "priority": priority,
        "answers": answers,
    }
    return _declaring(_SCHEDULE, message, stated)


class _Kind(NamedTuple):
    """What a decorator declares."""

    noun: str
    field: str
    """Of `Agent`."""
    decorator: str
    spec: type[BaseModel]


_TRIGGER = _Kind("trigger", "triggers", "on", TriggerSpec)
_SCHEDULE = _Kind("schedule", "schedules", "schedule", NamedSchedule)


def _declaring(kind: _Kind, first: object, stated: dict[str, Any]) -> Callable[[Agent], Agent]:
    """Return a decorator that adds what is stated to an agent's declarations of the kind."""
    if callable(first):
        raise Misdeclared(f"write @{kind.decorator}('…'){called_at()}")
    given = {field: value for field, value in stated.items() if value is not None}

    def declare(below: object) -> Agent:
        if not isinstance(below, Agent):
            raise Misdeclared(f"@{kind.decorator} must stand above @agent{called_at()}")
        before: tuple[Json, ...] = getattr(below, kind.field)
        _check_name(kind, below.name, given, before)
        try:
            valid = kind.spec.model_validate({"name": below.name, "agent": below.name} | given)
        except ValidationError as invalid:
            problem = first_problem(invalid, kind.noun)
            raise Misdeclared(
                f"the {kind.noun} of agent {below.name!r}: {problem}{called_at()}"
            ) from None
        json = valid.model_dump(mode="json", by_alias=True, exclude_unset=True)
        declared = {field: value for field, value in json.items() if field in given}
        added: dict[str, Any] = {kind.field: (declared, *before)}
        return replace(below, **added)

    return declare


def _check_name(kind: _Kind, agent: str, given: Json, before: tuple[Json, ...]) -> None:
    """Check that no other declaration has the name.

    Raises:
        Misdeclared: One has it.
    """
    # No numbers or subjects in names by default: who inserts a declaration, or changes a subject,
    # would leave one of the old name behind, which continues to fire.
    name = given.get("name", agent)
    if name in [one.get("name", agent) for one in before]:
        raise Misdeclared(
            f"two {kind.field} of agent {agent!r} are named {name!r}; give one another name: "
            f"@{kind.decorator}(…, name=…){called_at()}"
        )
