"""A trigger as its owner states it: over HTTP, in headrace.yaml and beside an agent."""

import re
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from headrace.model.answers import AnswerRule
from headrace.model.described import Described
from headrace.model.errors import HeadraceError
from headrace.model.event_template import (
    Event,
    PathMissing,
    Scalar,
    filled,
    picked,
    why_no_path,
    why_no_template,
)
from headrace.model.events import Json
from headrace.model.subjects import LONGEST_CONTEXT, LONGEST_SUBJECT, check_agent_name

_LITERAL = r"[^\s.*>{}$_][^\s.*>{}]*"
_SUBJECT = re.compile(rf"{_LITERAL}(\.(\*|[^\s.*>]+))*(\.>)?")


class Condition(Described):
    """What a value in an event must be."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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


class TriggerSpec(Described):
    """A trigger as its owner declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    agent: str
    subject: str = Field(max_length=LONGEST_SUBJECT)
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
    answers: AnswerRule | None = None
    """What is published of the tasks. None: nothing."""
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
        if self.answers is not None and self.answers.reply and self.stream is not None:
            raise ValueError("answers.reply: events of a stream have no reply subject")
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
            parts.append({"data": picked(self.data, event)})
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
