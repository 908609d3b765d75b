"""What of a task is published on the users' NATS, where, and how."""

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.model.described import Described
from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace.model.subjects import LONGEST_SUBJECT
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, TERMINAL

DEPTH = "Headrace-Depth"
"""Header of an answer: the number of tasks that have begun one another by answers up to it."""

CHAIN = "Headrace-Chain"
"""Header of an answer: the first task of the chain of tasks that begin one another by answers."""

TRIGGER = "Headrace-Trigger"
"""Header of an answer: the trigger that began its task, which takes no such event."""

ENDS = TERMINAL | {INPUT_REQUIRED, AUTH_REQUIRED}
"""States of a task that has nothing to add: it is over, or waits for its user."""

_SUBJECT = re.compile(r"[^\s.*>{}$_][^\s.*>{}]*(\.[^\s.*>]+)*")
_REPLY = re.compile(r"_INBOX\.[^\s*>]+")
_ROLES = {"gateway", "worker", "task-state", "triggers", "operator"}
"""Roles of the fleet, whose inboxes begin with their names."""


class ReplyRefused(HeadraceError):
    """The event's reply subject is no inbox, or one of the fleet's own."""

    code = "reply_refused"


class AnswerRule(Described):
    """What is published of a task, as an owner declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    subject: Annotated[str | None, Field(max_length=LONGEST_SUBJECT)] = None
    """NATS subject to publish on."""
    reply: bool = False
    """Whether to publish on the reply subject of the event, which came over core NATS."""
    stream: Annotated[str | None, Field(pattern=r"^[^\s.*>/\\]{1,255}$")] = None
    """JetStream stream that stores them. None: they are published over core NATS."""
    what: Literal["end", "artifacts", "events"] = "end"
    """The task at its end, its artifacts, or each of its events."""
    mode: Literal["structured", "binary"] = "structured"
    """Content mode of the CloudEvents."""

    @field_validator("subject")
    @classmethod
    def _is_subject(cls, subject: str | None) -> str | None:
        if subject is not None and not _SUBJECT.fullmatch(subject):
            raise ValueError("must be a NATS subject without wildcards, not beginning with $ or _")
        return subject

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.subject is None) != self.reply:
            raise ValueError("exactly one of subject and reply is required")
        if self.reply and self.stream is not None:
            raise ValueError("stream: no stream stores replies")
        return self

    def answers(
        self, reply: str, depth: int, trigger: str = "", chain: str = ""
    ) -> "TaskAnswers | None":
        """Return where a task publishes, `depth` answers after the first event.

        `reply` is the event's reply subject. None: the event expects no reply. `trigger` is that of
        the header `TRIGGER`; empty: a schedule began the task. `chain` is that of the header
        `CHAIN`; empty: the task is the first one.

        Raises:
            ReplyRefused: nothing may be published on `reply`.
        """
        if self.reply and not reply:
            return None
        if self.reply and not _is_inbox(reply):
            raise ReplyRefused("the event's reply subject is not an inbox of its sender")
        subject = reply if self.subject is None else self.subject
        return TaskAnswers(
            subject=subject,
            stream=self.stream,
            what=self.what,
            mode=self.mode,
            depth=depth,
            trigger=trigger,
            chain=chain,
        )


class TaskAnswers(BaseModel):
    """Where a task's answers are published."""

    subject: str
    stream: str | None = None
    what: Literal["end", "artifacts", "events"]
    mode: Literal["structured", "binary"]
    depth: int
    """Of the header `DEPTH`."""
    trigger: str = ""
    """Of the header `TRIGGER`; empty: none."""
    chain: str = ""
    """Of the header `CHAIN`; empty: the task's own id."""

    def include(self, event: Json) -> bool:
        """Return whether a StreamResponse of the task is published."""
        match self.what:
            case "events":
                return True
            case "artifacts":
                return "artifactUpdate" in event
            case "end":
                return state_of(event) in ENDS


def state_of(event: Json) -> str | None:
    """Return the state of the task in a StreamResponse. None: it has none."""
    content = event.get("statusUpdate") or event.get("task") or {}
    state: str | None = (content.get("status") or {}).get("state")
    return state


def _is_inbox(subject: str) -> bool:
    if len(subject) > LONGEST_SUBJECT or not _REPLY.fullmatch(subject):
        return False
    return subject.split(".")[1] not in _ROLES
