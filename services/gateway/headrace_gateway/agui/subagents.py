"""Delegated work: each child of the task is a subagent run, its own children nested in it."""

from dataclasses import dataclass, field

from headrace import parts
from headrace.events import Json
from headrace.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace_gateway.agui.output import OpenItem, Output
from headrace_gateway.agui.part_events import PartEvents
from headrace_gateway.agui.run import Run
from headrace_gateway.agui.utterances import utter
from headrace_gateway.agui.view import View

_ITS_OWN = frozenset({parts.STATE_SNAPSHOT, parts.STATE_DELTA, parts.MESSAGES_SNAPSHOT})
"""What a child shares with nobody's user interface."""
_USE = "subagent"
_ERRORS = {
    FAILED: ("failed", "the agent failed"),
    REJECTED: ("rejected", "the agent rejected the input"),
    CANCELED: ("canceled", "canceled"),
}
_OUTCOMES = {COMPLETED: {"type": "success"}, INPUT_REQUIRED: {"type": "suspended"}}
_STEP = "step"


@dataclass(slots=True)
class _Subagent:
    """One child, open or over."""

    id: str
    parent: str
    step: str
    """Its name for clients that know no subagents."""
    output: Output
    parts: PartEvents
    item: OpenItem = field(default_factory=lambda: OpenItem((), ()))
    """What is open as long as it is."""
    is_over: bool = False


class Subagents:
    """Says SUBAGENT events, and in them what children said.

    Clients that know only 0.x are told of a step for each child, and nothing that it said.
    """

    def __init__(self, output: Output, view: View, run: Run) -> None:
        """Say them to `output`, for the client of `run`."""
        self._output, self._view, self._run = output, view, run
        self._known: dict[str, _Subagent] = {}

    def tell(self, told: Json, status: Json, generation: int) -> None:
        """Tell what an event marked with `told` says of a child, or of a child's child.

        Raises:
            ValueError, KeyError, TypeError: it is not of the shape it claims.
        """
        parent, innermost = "", told
        while isinstance(inner := innermost.get("child"), dict):
            self._begun(innermost, parent)
            parent, innermost = innermost["task"], inner
        if parent and self._known[parent].is_over:
            return
        child = self._begun(innermost, parent)
        message, state = status.get("message"), innermost.get("state")
        if innermost.get("givenUp"):
            state = CANCELED
        if child.is_over:
            return
        if message is not None and state not in _ERRORS and self._run.modern:
            name = message.get("messageId") or f"{child.id}.{generation}"
            said = [p for p in message.get("parts", []) if parts.event_type(p) not in _ITS_OWN]
            utter(child.parts, {"parts": said}, name, final=state is not None)
        if state in _ERRORS or state in _OUTCOMES:
            self._end(child, state, _text(message or {}))

    def _begun(self, told: Json, parent: str) -> _Subagent:
        task, name = told["task"], told.get("agent") or "agent"
        if not isinstance(task, str) or not isinstance(name, str):
            raise TypeError("a child's task and agent are strings")
        if (known := self._known.get(task)) is None:
            known = self._known[task] = self._begin(task, name, parent)
        return known

    def _begin(self, task: str, name: str, parent: str) -> _Subagent:
        output = self._output.branch(task) if self._run.modern else self._output
        said = PartEvents(output, self._view, modern=self._run.modern, thinking=self._run.thinking)
        child = _Subagent(task, parent, self._step(name), output, said)
        if self._run.modern:
            nested = {"parentSubagentRunId": parent} if parent in self._known else {}
            opening = ("SUBAGENT_STARTED", {"subagentRunId": task, "name": name, **nested})
            # Should the run end first, nothing more is known of it.
            child.item = OpenItem((opening,), (_error(task, *_ERRORS[CANCELED]),))
            output.begin((_USE, task), child.item)
        else:
            fields = {"stepName": child.step}
            child.item = OpenItem((("STEP_STARTED", fields),), (("STEP_FINISHED", fields),))
            output.begin((_STEP, child.step), child.item)
        return child

    def _step(self, name: str) -> str:
        taken = {child.step for child in self._known.values()}
        number, step = 1, name
        while step in taken or (_STEP, step) in self._output.open:
            number += 1
            step = f"{name} {number}"
        return step

    def _end(self, child: _Subagent, state: str, text: str) -> None:
        for other in self._known.values():
            if other.parent == child.id and not other.is_over:
                self._end(other, CANCELED, "")
        child.is_over = True
        if not self._run.modern:
            if self._output.open.get((_STEP, child.step)) is child.item:
                self._output.end((_STEP, child.step))
            return
        if state in _ERRORS:
            code, default = _ERRORS[state]
            child.item.closing = (_error(child.id, code, text or default),)
        else:
            outcome = {"subagentRunId": child.id, "outcome": _OUTCOMES[state]}
            child.item.closing = (("SUBAGENT_FINISHED", outcome),)
        child.output.end_all()


def _error(task: str, code: str, message: str) -> tuple[str, Json]:
    return "SUBAGENT_ERROR", {"subagentRunId": task, "message": message, "code": code}


def _text(message: Json) -> str:
    return "".join(part.get("text", "") for part in message.get("parts", []))
