"""The body with which a caller stores a schedule."""

from datetime import UTC, datetime
from typing import Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.model.events import Json
from headrace.model.schedule import Schedule
from headrace.model.subjects import LONGEST_CONTEXT
from headrace.model.timestamp import timestamp
from headrace_gateway.json_errors import InputInvalid

KINDS = ("at", "every", "cron")
"""The fields of which exactly one says when a schedule fires."""

EXPRESSION_RULES = {
    "at": "must be a time such as 2030-01-31T09:00:00Z",
    "every": "must be a duration of at least 1s, such as 90s, 5m or 1h30m",
    "cron": "must be a cron expression that is due some day, of five fields, or six with seconds",
}
"""What JetStream requires of each."""

_LONGEST_JITTER = 24 * 3600.0
_CONTENTS = {"text", "data"}


class ScheduleInput(BaseModel):
    """A schedule as its owner states it."""

    # An expression becomes a header, which a line break would end.
    model_config = ConfigDict(extra="forbid")

    agent: str
    message: str | list[dict[str, Any]]
    at: AwareDatetime | None = None
    every: str | None = Field(None, pattern=r"^[0-9a-zµ.]{1,40}$")
    cron: str | None = Field(None, pattern=r"^[A-Za-z0-9@*/,?-][A-Za-z0-9@*/,? -]{0,200}$")
    time_zone: str | None = Field(None, alias="timeZone", pattern=r"^[A-Za-z0-9_+/-]{1,64}$")
    overlap: Literal["skip", "queue", "replace"] = "skip"
    jitter: float = Field(0.0, ge=0.0, le=_LONGEST_JITTER)
    end_at: AwareDatetime | None = Field(None, alias="endAt")
    max_firings: int | None = Field(None, alias="maxFirings", ge=1)
    context_id: str | None = Field(
        None, alias="contextId", min_length=1, max_length=LONGEST_CONTEXT
    )
    priority: str | None = None

    @field_validator("message")
    @classmethod
    def _is_content(cls, message: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
        if not message:
            raise ValueError("must not be empty")
        if not isinstance(message, str) and any(len(_CONTENTS & set(one)) != 1 for one in message):
            raise ValueError("must be a text, or a list of parts that each have text or data")
        return message

    @model_validator(mode="after")
    def _has_one_time(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError("exactly one of at, every and cron is required")
        if self.time_zone is not None and self.cron is None:
            raise ValueError("timeZone is for cron only")
        return self

    def schedule(self, priority: str) -> Schedule:
        """Return the definition, with the priority of its tasks."""
        message = self.message
        return Schedule(
            agent=self.agent,
            parts=[{"text": message}] if isinstance(message, str) else message,
            context=self.context_id,
            priority=priority,
            at=_utc(self.at),
            every=self.every,
            cron=self.cron,
            time_zone=self.time_zone,
            overlap=self.overlap,
            jitter=self.jitter,
            end=_utc(self.end_at),
            max_firings=self.max_firings,
        )


def read_schedule(body: Json) -> ScheduleInput:
    """Return the schedule in a body.

    Raises:
        InputInvalid: it breaks a rule; the message names the field and the rule.
    """
    try:
        return ScheduleInput.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise InputInvalid(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


def _utc(time: datetime | None) -> str | None:
    return None if time is None else timestamp(time.astimezone(UTC))
