"""Delegated work: each child task is a subagent run; its own children are nested in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace_gateway.protocols.agui.attempts import NAME as ATTEMPT_NAME
from headrace_gateway.protocols.agui.attempts import take_back
from headrace_gateway.protocols.agui.call_names import CallNames, OpenCalls
from headrace_gateway.protocols.agui.output import OpenItem, Output
from headrace_gateway.protocols.agui.part_events import PartEvents, render_message
from headrace_gateway.protocols.agui.run import AguiRun
from headrace_gateway.protocols.agui.snapshot import emit_messages
from headrace_gateway.protocols.agui.view import View

_ITS_OWN = frozenset({parts.STATE_SNAPSHOT, parts.STATE_DELTA, parts.MESSAGES_SNAPSHOT})
"""Parts of a child that the clients of its parent do not receive."""
_USE = "subagent"
_ERRORS = {
    FAILED: ("failed", "the agent failed"),
    REJECTED: ("rejected", "the agent rejected the input"),
    CANCELED: ("canceled", "canceled"),
}
_OUTCOMES = {COMPLETED: {"type": "success"}, INPUT_REQUIRED: {"type": "suspended"}}
_STEP = "step"


@dataclass(slots=True)
class _SubagentRun:
    """One run of a child; a child that continues after an answer gets another one."""

    id: str
    """The task's id, with the run's number appended from the second run on."""
    parent: str
    """Task of the child that delegated to this one; empty for the run's own children."""
    agent: str
    step: str
    """Step name for clients that do not support subagents."""
    output: Output
    parts: PartEvents
    item: OpenItem = field(default_factory=lambda: OpenItem((), ()))
    """Item that is open while the child runs."""
    number: int = 1
    """Number of this run of the task."""
    is_over: bool = False
    waits: bool = False
    """Whether it has ended because it asked for input."""
    is_answered: bool = False
    """Whether its parent has since answered."""
    began: dict[str, int] = field(default_factory=dict)
    """Generation of the child's log in which each of its messages started."""


class EarlierSubagent(NamedTuple):
    """What a subagent has done in earlier runs."""

    runs: int
    open_calls: OpenCalls


_NEW = EarlierSubagent(0, {})


class Subagents:
    """Emits SUBAGENT events, and the output of children within them.

    Clients of 0.x get a step for each child, without its output.
    """

    def __init__(
        self, output: Output, view: View, run: AguiRun, earlier: Mapping[str, EarlierSubagent]
    ) -> None:
        """Emit to `output`, for the client of `run`.

        `earlier` are the subagents of the task's earlier runs, by task.
        """
        self._output, self._view, self._run, self._earlier = output, view, run, earlier
        self._known: dict[str, _SubagentRun] = {}

    def seen(self) -> dict[str, EarlierSubagent]:
        """Return all subagents so far, by task, for the task's next run."""
        now = {
            task: EarlierSubagent(child.number, child.parts.calls.open())
            for task, child in self._known.items()
        }
        return {**self._earlier, **now}

    def emit(self, update: Json, status: Json, generation: int) -> None:
        """Emit an event about a child, or a child's child, which `update` identifies.

        Raises:
            ValueError, KeyError, TypeError: the event is malformed.
        """
        parent, innermost = "", update
        while isinstance(inner := innermost.get("child"), dict):
            if self._of(innermost, parent).is_over:
                return
            parent, innermost = innermost["task"], inner
        child = self._of(innermost, parent)
        if not child.is_over:
            self._emit(child, innermost, status.get("message"), generation)

    def _of(self, update: Json, parent: str) -> _SubagentRun:
        """Return the child that `update` is about; a new one if it continues after an answer."""
        task, name = update["task"], update.get("agent") or "agent"
        if not isinstance(task, str) or not isinstance(name, str):
            raise TypeError("a child's task and agent must be strings")
        known = self._known.get(task)
        if known is None:
            before = self._earlier.get(task, _NEW)
            known = self._known[task] = self._begin(task, name, parent, before)
        elif known.waits:
            is_continued = update.get("generation") == 0
            known.is_answered = known.is_answered or is_continued
            if known.is_answered and not is_continued and not update.get("givenUp"):
                known = self._known[task] = self._continue(task, known)
        return known

    def _continue(self, task: str, child: _SubagentRun) -> _SubagentRun:
        """Start another run of `child`; ids of ended runs are not reused."""
        before = EarlierSubagent(child.number, child.parts.calls.open())
        return self._begin(task, child.agent, child.parent, before)

    def _emit(
        self, child: _SubagentRun, update: Json, message: Json | None, generation: int
    ) -> None:
        state = CANCELED if update.get("givenUp") else update.get("state")
        if self._run.modern and "attempt" in update:
            self._begins_again(child, update)
        if self._run.modern and message is not None and state not in _ERRORS:
            name = message.get("messageId") or f"{child.id}.{generation}"
            content = [p for p in message.get("parts", []) if parts.event_type(p) not in _ITS_OWN]
            number = len(self._view.messages)
            render_message(child.parts, {"parts": content}, name, final=state is not None)
            if len(self._view.messages) != number:
                self._note(child, update.get("generation", 0))
        if state in _ERRORS or state in _OUTCOMES:
            self._end(child, state, _text(message or {}))

    def _note(self, child: _SubagentRun, generation: int) -> None:
        """Record which messages the child started in `generation` of its log."""
        for key, held in self._view.messages.items():
            if held.subagent == child.id:
                child.began.setdefault(key, generation)

    def _begins_again(self, child: _SubagentRun, update: Json) -> None:
        """Retract what a replaced attempt of the child emitted after its last checkpoint."""
        child.output.end_own(but=(_USE, child.id))
        child.output.emit("CUSTOM", name=ATTEMPT_NAME, value={"attempt": update["attempt"]})
        after = update.get("discardedAfter")
        if after is None:
            return
        gone = {key for key, began in child.began.items() if began > after}
        if gone & self._view.messages.keys():
            rest = {key: held for key, held in self._view.messages.items() if key not in gone}
            take_back(child.output, self._view, rest)
            emit_messages(self._output, self._view)

    def _begin(self, task: str, name: str, parent: str, before: EarlierSubagent) -> _SubagentRun:
        number = before.runs + 1
        run = task if number == 1 else f"{task}.{number}"
        output = self._output.branch(run) if self._run.modern else self._output
        calls = CallNames(output, self._view, before.open_calls)
        events = PartEvents(
            output, self._view, calls, modern=self._run.modern, thinking=self._run.thinking
        )
        child = _SubagentRun(run, parent, name, self._step(name), output, events, number=number)
        if self._run.modern:
            host = self._known.get(parent)
            nested = {"parentSubagentRunId": host.id} if host else {}
            opening = ("SUBAGENT_STARTED", {"subagentRunId": run, "name": name, **nested})
            # If the run ends first, the child's outcome is unknown and it counts as canceled.
            child.item = OpenItem((opening,), (_error(run, *_ERRORS[CANCELED]),))
            output.begin((_USE, run), child.item)
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

    def _end(self, child: _SubagentRun, state: str, text: str) -> None:
        for other in self._known.values():
            if self._known.get(other.parent) is child and not other.is_over:
                self._end(other, CANCELED, "")
        child.is_over, child.waits = True, state == INPUT_REQUIRED
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
