"""Encoding of a run's last event."""

from dataclasses import dataclass, field
from typing import Any

from headrace.model import events, parts
from headrace.model.delegation import ASKS_FOR
from headrace.model.entry import ANSWERED
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Draft, Json
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace.sdk.emit import Complete, Ending, InputRequired, Message, Reject, check_texts
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed_output import Outcome
from headrace_worker.blocks import RunIds
from headrace_worker.relayed_events import PART_KINDS, end_parts, foreign


@dataclass(frozen=True, slots=True)
class Fault:
    """The cause of a failed run; clients see only the id and the reason."""

    id: str
    reason: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class End:
    """A run's last event, and the state it leaves the task in."""

    draft: Draft
    state: str
    message: Json | None = None
    """Message of the draft."""
    metadata: Json = field(default_factory=dict)
    """Metadata of the draft."""
    fault: Fault | None = None
    """The failure, unless the message contains all of it."""


class Endings:
    """Builder of a run's last event."""

    def __init__(self, task: str, context: str, ids: RunIds) -> None:
        """Build the last event for one run of `task` in `context`."""
        self._task, self._context, self._ids = task, context, ids

    def of(self, output: Ending) -> End:
        """Return the end that the agent emitted.

        Raises:
            MalformedOutput: a field has the wrong type.
            TypeError: a value can't be encoded as JSON.
        """
        check_texts(output)
        match output:
            case Complete():
                return self.completed(output.text)
            case InputRequired():
                return self._question(output)
            case Reject():
                return self._status(REJECTED, parts.notice_part(output.reason, parts.ERROR))
            case Message():
                return self._answer(output)
            case Outcome():
                return self._outcome(output)

    def completed(self, text: str = "") -> End:
        """Return a COMPLETED end."""
        return self._status(COMPLETED, {"text": text} if text else None)

    def completed_with(self, output: Message) -> End:
        """Return a COMPLETED end with a bare Message's content; the client already has a Task."""
        message = self._message(_content(output))
        return self._with(COMPLETED, message)

    def failed(self, reason: str) -> End:
        """Return a FAILED end; clients see `reason`."""
        return self._status(FAILED, parts.notice_part(reason, parts.ERROR))

    def canceled(self) -> End:
        """Return a CANCELED end."""
        return self._status(CANCELED)

    def _question(self, output: InputRequired) -> End:
        message = None
        if output.prompt or output.schema is not None:
            message = self._message([{"text": output.prompt}])
        if message is not None and output.schema is not None:
            message["metadata"] = {events.INPUT_SCHEMA: output.schema}
        asked: Json = {
            INTERRUPTS: list(output.interrupts),
            PENDING_TOOL_CALLS: list(output.tool_calls),
        }
        asked_for = {ASKS_FOR: output.asks_for} if output.asks_for else {}
        metadata = {key: value for key, value in asked.items() if value} | asked_for
        draft = events.status_update(self._task, self._context, INPUT_REQUIRED, message, metadata)
        return End(draft, INPUT_REQUIRED, message, metadata)

    def _outcome(self, output: Outcome) -> End:
        content, message = end_parts(output), None
        if content:
            message = self._message(content)
            message["messageId"] = output.message_id or message["messageId"]
            if output.message_metadata:
                message["metadata"] = foreign(output.message_metadata)
        metadata = foreign(output.metadata)
        draft = events.status_update(self._task, self._context, output.state, message, metadata)
        return End(draft, output.state, message, metadata)

    def _status(self, state: str, part: Json | None = None) -> End:
        message = None if part is None else self._message([part])
        return self._with(state, message)

    def _with(self, state: str, message: Json | None) -> End:
        draft = events.status_update(self._task, self._context, state, message)
        return End(draft, state, message)

    def _answer(self, output: Message) -> End:
        message = self._message(_content(output))
        return End(events.bare_message(self._context, message), ANSWERED)

    def _message(self, content: list[Json]) -> Json:
        return {"messageId": self._ids.mint("message"), "role": "ROLE_AGENT", "parts": content}


def _content(output: Message) -> list[Json]:
    """Return the Message's parts.

    Raises:
        MalformedOutput: the Message has no parts, or one is not an A2A Part.
    """
    content: list[Any] = [*([{"text": output.text}] if output.text else []), *output.parts]
    if not content or not all(
        isinstance(part, dict) and PART_KINDS & part.keys() for part in content
    ):
        raise MalformedOutput("a Message must have parts with text, raw, url or data")
    return content
