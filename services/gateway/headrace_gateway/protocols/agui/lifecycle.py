"""How a run starts and ends: always with one terminal event, and with no open items."""

from headrace.model import parts
from headrace.model.events import INPUT_SCHEMA, INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import AUTH_REQUIRED, CANCELED, FAILED, INPUT_REQUIRED, REJECTED
from headrace_gateway.protocols.agui.call_names import CallNames
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.run import AguiRun
from headrace_gateway.protocols.agui.view import View

PROTOCOL_VERSION = "1.0"

_ERRORS = {
    FAILED: ("failed", "the agent failed"),
    REJECTED: ("rejected", "the agent rejected the input"),
}
_REASONS = {INPUT_REQUIRED: "input_required", AUTH_REQUIRED: "auth_required"}


class RunLifecycle:
    """Emits RUN events."""

    def __init__(self, output: Output, view: View, calls: CallNames, run: AguiRun) -> None:
        """Emit the events of `run`, which has made `calls`."""
        self._output, self._view, self._calls, self._run = output, view, calls, run

    def started(self) -> None:
        """Start the run."""
        parent = {"parentRunId": self._run.parent} if self._run.parent else {}
        self._output.emit(
            "RUN_STARTED",
            threadId=self._run.thread,
            runId=self._run.id,
            protocolVersion=PROTOCOL_VERSION,
            **parent,
        )

    def ended(self, state: str, event: Json, interrupt: str) -> None:
        """End the run according to `event`, a status update to `state`.

        `interrupt` is the id of the interrupt if the event asks for input without an id.
        """
        self._output.end_all()
        if state in _ERRORS:
            code, default = _ERRORS[state]
            self._error(code, words(event) or default)
        elif state == CANCELED:
            self._finished({"type": "cancelled"} if self._run.modern else None)
        elif state in _REASONS:
            self._finished(self._waiting(state, event, interrupt))
        else:
            self._finished(None)

    def answered(self) -> None:
        """End a run that was answered with a bare message."""
        self._output.end_all()
        self._finished(None)

    def superseded(self) -> None:
        """End the run because its task continued with another input."""
        self.ended(CANCELED, {}, "")

    def broken(self, code: str, message: str) -> None:
        """End the run because its log cannot be read further."""
        self._output.end_all()
        self._error(code, message)

    def _waiting(self, state: str, event: Json, interrupt: str) -> Json | None:
        metadata = event.get("metadata", {})
        calls, interrupts = metadata.get(PENDING_TOOL_CALLS), metadata.get(INTERRUPTS)
        pending = {"pendingToolCallIds": self._calls.shown(calls)} if calls else {}
        if calls and not interrupts:
            return {"type": "success", **pending} if self._run.modern else None
        if interrupts:
            interrupts = list(map(self._about_its_call, interrupts))
        else:
            interrupts = [{"id": interrupt, "reason": _REASONS[state], **_question_of(event)}]
        both = pending if self._run.modern else {}
        return {"type": "interrupt", "interrupts": interrupts, **both}

    def _about_its_call(self, interrupt: Json) -> Json:
        if not (call := interrupt.get("toolCallId")):
            return interrupt
        [shown] = self._calls.shown([call])
        # An approval may be named like its call, whose id may recur.
        name = shown if interrupt.get("id") == call else interrupt.get("id")
        return {**interrupt, "id": name, "toolCallId": shown}

    def _finished(self, outcome: Json | None) -> None:
        outcomes = {"outcome": outcome} if outcome else {}
        self._output.emit(
            "RUN_FINISHED",
            threadId=self._run.thread,
            runId=self._run.id,
            **outcomes,
            **self._usage(),
        )

    def _error(self, code: str, message: str) -> None:
        self._output.emit("RUN_ERROR", message=message, code=code, **self._usage())

    def _usage(self) -> Json:
        return {"usage": self._view.usage} if self._view.usage and self._run.modern else {}


def _question_of(event: Json) -> Json:
    """Return the fields of an interrupt that describe the question."""
    question: Json = {}
    if text := words(event):
        question["message"] = text
    schema = _message(event).get("metadata", {}).get(INPUT_SCHEMA)
    if isinstance(schema, dict):
        question["responseSchema"] = schema
    return question


def _message(event: Json) -> Json:
    message: Json = event.get("status", {}).get("message", {})
    return message


def words(event: Json) -> str:
    """Return the text of a status update's message, without thinking and tool calls."""
    return parts.words_of(_message(event).get("parts", ()))
