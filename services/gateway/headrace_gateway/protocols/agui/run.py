"""A run's thread and its client's input, as stored in the log."""

from dataclasses import dataclass, field
from typing import Any, Self

from headrace.model import parts
from headrace.model.events import AGUI, Json
from headrace.model.user_content import from_parts
from headrace_gateway.protocols.agui.extras import RAW, THINKING, wants_extra

_FOREIGN = "1.0"
"""Protocol version assumed for a client that reads a run started in another protocol."""


@dataclass(frozen=True, slots=True)
class AguiRun:
    """One run by its AG-UI ids."""

    task: str
    thread: str
    id: str
    parent: str | None = None
    version: str | None = None
    """The protocol version that the client declared; None for a 0.x client."""
    state: Any = None
    messages: list[Json] = field(default_factory=list)
    """The client's messages before the run."""
    answers: list[Json] = field(default_factory=list)
    """What the input answers, as AG-UI's `resume`, by the agent's own ids; none has an empty id."""
    raw: bool = False
    """Whether the client requested the log's events as RAW events."""
    thinking: bool = False
    """Whether the client requested THINKING events."""

    @property
    def modern(self) -> bool:
        """Whether the client supports the features of 1.0."""
        return self.version is not None and not self.version.startswith("0.")

    @classmethod
    def of_input(cls, event: Json, number: int) -> Self:
        """Return the run that an input (an event of the log) starts."""
        body = event.get("task") or event["statusUpdate"]
        context, task = body["contextId"], body.get("taskId") or body["id"]
        message = _input_message(body)
        kept = (body.get("metadata") or {}).get(AGUI)
        sent = [{"id": message["messageId"], "role": "user"}] if "messageId" in message else []
        answers = [] if "task" in event else _answers(message)
        if not isinstance(kept, dict):
            filled = _filled(sent, message)
            name = f"{task}.{number}"
            return cls(task, context, name, None, _FOREIGN, {}, filled, answers)
        return cls(
            task=task,
            thread=context,
            id=kept.get("runId") or f"{task}.{number}",
            parent=kept.get("parentRunId"),
            version=kept.get("protocolVersion"),
            state=kept.get("state", {}),
            messages=_filled(kept.get("messages", sent), message),
            answers=answers,
            raw=wants_extra(kept.get("forwardedProps"), RAW),
            thinking=wants_extra(kept.get("forwardedProps"), THINKING),
        )


def _input_message(body: Json) -> Json:
    """Return the input's A2A Message."""
    history: list[Json] = body.get("history") or [body["status"].get("message") or {}]
    return history[-1]


def _answers(message: Json) -> list[Json]:
    """Return a follow-up's answers: its parts that name an interrupt, and plain data."""
    return [
        {
            "interruptId": parts.interrupt_id(part),
            "status": parts.resume_status(part) or "resolved",
            "payload": part["data"] if "data" in part else part.get("text", ""),
        }
        for part in message.get("parts", [])
        if parts.interrupt_id(part) or ("data" in part and not part.get("metadata"))
    ]


def _filled(messages: list[Json], sent: Json) -> list[Json]:
    """Return `messages`, with the content of `sent`, an A2A Message, filled in."""
    return [
        {**message, "content": from_parts(sent["parts"])}
        if message["id"] == sent["messageId"] and "content" not in message
        else message
        for message in messages
    ]
