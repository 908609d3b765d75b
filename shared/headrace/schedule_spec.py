"""A schedule as its owner states it, over HTTP and in headrace.yaml."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from headrace.model.answers import AnswerRule
from headrace.model.change import without_own
from headrace.model.delegation import why_no_message
from headrace.model.described import Described
from headrace.model.events import Json, timestamp
from headrace.model.go_duration import interval
from headrace.model.schedule import MOST_QUEUED, Overlap, Schedule
from headrace.model.subjects import LONGEST_CONTEXT

KINDS = ("at", "every", "cron")
"""The fields of which exactly one determines when a schedule fires."""

EXPRESSION_RULES = {
    "at": "must be a time such as 2030-01-31T09:00:00Z",
    "every": "must be a duration of at least 1s, in whole seconds, such as 90s, 5m or 1h30m",
    "cron": "must be a cron expression of five fields, or six with seconds, that matches some date",
}
"""What JetStream requires of each."""

_LONGEST_JITTER = 24 * 3600.0
_CONTENTS = {"text", "data"}


def _unreserved(part: Json) -> Json:
    """Return the part without metadata that is reserved for the fleet."""
    if "metadata" not in part:
        return part
    return {**part, "metadata": without_own(part["metadata"])}


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time of the years 1 to 9999 in UTC") from None


type _Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class ScheduleSpec(Described):
    """A schedule as its owner states it.

    A field that a `Schedule` stores has its name there; its alias is what owners see.
    """

    # An expression becomes a header, which a line break would end.
    model_config = ConfigDict(extra="forbid", defer_build=True)

    agent: str
    """The agent that gets the message."""
    message: str | list[dict[str, Any]]
    """Text, or A2A Parts with text or data."""
    at: _Time | None = None
    every: str | None = Field(None, pattern=r"^[0-9a-zµ.]{1,40}$")
    cron: str | None = Field(None, pattern=r"^[A-Za-z0-9@*/,?-][A-Za-z0-9@*/,? -]{0,200}$")
    time_zone: str | None = Field(None, alias="timeZone", pattern=r"^[A-Za-z0-9_+/-]{1,64}$")
    overlap: Overlap = "skip"
    max_queued: int | None = Field(None, alias="maxQueued", ge=1, le=MOST_QUEUED)
    jitter: float = Field(0.0, ge=0.0, le=_LONGEST_JITTER)
    end: _Time | None = Field(None, alias="endAt")
    max_firings: int | None = Field(None, alias="maxFirings", ge=1)
    context: str | None = Field(None, alias="contextId", min_length=1, max_length=LONGEST_CONTEXT)
    priority: str | None = None
    answers: AnswerRule | None = None
    """What is published of the tasks, on a subject. None: nothing."""

    @field_validator("message")
    @classmethod
    def _is_content(cls, message: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
        if not message:
            raise ValueError("must not be empty")
        if not isinstance(message, str) and any(len(_CONTENTS & set(one)) != 1 for one in message):
            raise ValueError("must be a text, or a list of parts that each have text or data")
        if not isinstance(message, str) and (why := why_no_message({"parts": message})) is not None:
            raise ValueError(why)
        return message

    @field_validator("every")
    @classmethod
    def _has_whole_seconds(cls, every: str | None) -> str | None:
        # JetStream rounds the others each time, so that they fire at other intervals.
        try:
            is_whole = every is None or not interval(every).microseconds
        except OverflowError:
            is_whole = False
        if not is_whole:
            raise ValueError(EXPRESSION_RULES["every"])
        return every

    @field_validator("answers")
    @classmethod
    def _has_subject(cls, answers: AnswerRule | None) -> AnswerRule | None:
        if answers is not None and answers.reply:
            raise ValueError("must name a subject: a firing has no reply subject")
        return answers

    @model_validator(mode="after")
    def _has_one_time(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError("exactly one of at, every and cron is required")
        if self.time_zone is not None and self.cron is None:
            raise ValueError("timeZone is for cron only")
        if self.max_queued is not None and self.overlap != "queue":
            raise ValueError("maxQueued is for overlap queue only")
        return self

    def schedule(self, priority: str) -> Schedule:
        """Return the definition, with the priority of its tasks."""
        message = self.message
        parts = [{"text": message}] if isinstance(message, str) else [*map(_unreserved, message)]
        stated = self.model_dump(exclude={"message", "priority"}, exclude_none=True)
        times = {name: timestamp(one) for name, one in stated.items() if isinstance(one, datetime)}
        return Schedule(**stated | times, parts=parts, priority=priority)

    @classmethod
    def shown(cls, schedule: Schedule) -> Json:
        """Return what `schedule` does, as its owner has stated it."""
        stored = schedule.model_dump()
        fields = {field.alias or name: stored.get(name) for name, field in cls.model_fields.items()}
        answers = schedule.answers and schedule.answers.model_dump(exclude_defaults=True)
        most = schedule.max_queued if schedule.overlap == "queue" else None
        return fields | {"message": schedule.parts, "answers": answers, "maxQueued": most}


class BackFill(BaseModel):
    """A range of time that is over, for whose times a schedule fires."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    start: _Time = Field(alias="from")
    end: _Time = Field(alias="to")
    overlap: Overlap = "queue"

    @model_validator(mode="after")
    def _is_over(self) -> Self:
        if self.end < self.start:
            raise ValueError("to must not be before from")
        if self.end > datetime.now(UTC):
            raise ValueError("to must not be later than now")
        return self


class NamedSchedule(ScheduleSpec):
    """A schedule with its name, as in headrace.yaml."""

    name: str = Field(min_length=1, max_length=64)
