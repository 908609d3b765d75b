"""The events that end a run."""

from dataclasses import dataclass, field
from typing import Any

from headrace.model import events, parts
from headrace.model.delegation import ASKS_FOR
from headrace.model.entry import ANSWERED
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Draft, Json
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace.sdk.emit import Complete, Ending, InputRequired, Message, Reject
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Outcome
from headrace_worker.ids import RunIds
from headrace_worker.relayed_events import end_parts, foreign
from headrace_worker.saying import check_texts

_KINDS = {"text", "raw", "url", "data"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a run has failed, of which its client sees no more than the id and the reason."""

    id: str
    reason: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class End:
    """A run's last event and the state that it leaves the task in."""

    draft: Draft
    state: str
    message: Json | None = None
    """What the draft says."""
    metadata: Json = field(default_factory=dict)
    """The draft's."""
    fault: Fault | None = None
    """What went wrong, unless that is all in the message."""


class Endings:
    """How one run of a task can end."""

    def __init__(self, task: str, context: str, ids: RunIds) -> None:
        """Make the ends of one run of `task` in `context`."""
        self._task, self._context, self._ids = task, context, ids

    def of(self, said: Ending) -> End:
        """Return the end that the agent asked for.

        Raises:
            MalformedOutput: a field is not of its type's shape.
            TypeError: something in it is not JSON.
        """
        check_texts(said)
        match said:
            case Complete():
                return self.completed(said.text)
            case InputRequired():
                return self._question(said)
            case Reject():
                return self._status(REJECTED, parts.notice_part(said.reason, parts.ERROR))
            case Message():
                return self._answer(said)
            case Outcome():
                return self._outcome(said)

    def completed(self, text: str = "") -> End:
        """The agent has done what was asked."""
        return self._status(COMPLETED, {"text": text} if text else None)

    def completed_with(self, said: Message) -> End:
        """The agent's answer is all of the result, but its client has been given a Task."""
        message = self._message(_content(said))
        return self._with(COMPLETED, message)

    def failed(self, reason: str) -> End:
        """The agent, or its worker, could not; `reason` is safe to show."""
        return self._status(FAILED, parts.notice_part(reason, parts.ERROR))

    def canceled(self) -> End:
        """Somebody asked to stop."""
        return self._status(CANCELED)

    def _question(self, said: InputRequired) -> End:
        message = None
        if said.prompt or said.schema is not None:
            message = self._message([{"text": said.prompt}])
        if message is not None and said.schema is not None:
            message["metadata"] = {events.INPUT_SCHEMA: said.schema}
        asked: Json = {INTERRUPTS: list(said.interrupts), PENDING_TOOL_CALLS: list(said.tool_calls)}
        asked_for = {ASKS_FOR: said.asks_for} if said.asks_for else {}
        metadata = {key: value for key, value in asked.items() if value} | asked_for
        draft = events.status_update(self._task, self._context, INPUT_REQUIRED, message, metadata)
        return End(draft, INPUT_REQUIRED, message, metadata)

    def _outcome(self, said: Outcome) -> End:
        content, message = end_parts(said), None
        if content:
            message = self._message(content)
            message["messageId"] = said.message_id or message["messageId"]
            if said.message_metadata:
                message["metadata"] = foreign(said.message_metadata)
        metadata = foreign(said.metadata)
        draft = events.status_update(self._task, self._context, said.state, message, metadata)
        return End(draft, said.state, message, metadata)

    def _status(self, state: str, part: Json | None = None) -> End:
        message = None if part is None else self._message([part])
        return self._with(state, message)

    def _with(self, state: str, message: Json | None) -> End:
        draft = events.status_update(self._task, self._context, state, message)
        return End(draft, state, message)

    def _answer(self, said: Message) -> End:
        message = self._message(_content(said))
        return End(events.bare_message(self._context, message), ANSWERED)

    def _message(self, content: list[Json]) -> Json:
        return {"messageId": self._ids.mint("message"), "role": "ROLE_AGENT", "parts": content}


def _content(said: Message) -> list[Json]:
    """Return the Message's parts.

    Raises:
        MalformedOutput: there are none, or one is no A2A Part.
    """
    content: list[Any] = [*([{"text": said.text}] if said.text else []), *said.parts]
    if not content or not all(isinstance(part, dict) and _KINDS & part.keys() for part in content):
        raise MalformedOutput("a Message needs parts with text, raw, url or data")
    return content
