"""A readable form of a task's events: the answer's text as it arrives, and how the task ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.events import ATTEMPT, INTERRUPTS, RECOVERED, Json
from headrace.model.memory import shown_writes
from headrace.model.step import ShownStep
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, WORKING
from headrace_cli.display import Display
from headrace_cli.gateway import command_line
from headrace_cli.tables import one_line

_LONGEST = 400
"""Maximum characters of a tool call's arguments or result that are shown."""


def state_of(event: Json) -> str:
    """Return the state in `event` (a StreamResponse); empty if it contains none."""
    bearer = event.get("task") or event.get("statusUpdate") or {}
    return str(bearer.get("status", {}).get("state", ""))


def task_of(event: Json) -> str:
    """Return the id of the task that `event` belongs to; empty for a bare Message."""
    update = event.get("statusUpdate") or event.get("artifactUpdate") or {}
    return str(event.get("task", {}).get("id") or update.get("taskId", ""))


@dataclass(slots=True)
class Transcript:
    """Shows events on a display."""

    display: Display
    url: str
    """The gateway, which hints name."""
    hints: bool = True
    """Whether to show the command that answers a question."""
    _state: str = field(default="", init=False)
    _seen: set[str] = field(default_factory=set, init=False)
    _children: dict[str, str] = field(default_factory=dict, init=False)
    """The agent of each child task."""
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    """The name and the arguments, as JSON, of each call so far, by id."""
    _pieces: dict[str, str] = field(default_factory=dict, init=False)
    """The arguments so far of the calls that are not complete, by id."""
    _shown_calls: set[tuple[str, str]] = field(default_factory=set, init=False)
    """The calls that were shown whole."""
    _mid_line: bool = field(default=False, init=False)
    _mid_thought: bool = field(default=False, init=False)
    _thought: tuple[str, str] = field(default=("", ""), init=False)
    """The child task and the block of the reasoning shown last."""

    @property
    def state(self) -> str:
        """The task's state as last shown; empty: none, as for an answer that is a Message."""
        return self._state

    def note(self, event: Json) -> None:
        """Take note of an event's state without showing it."""
        self._state = state_of(event) or self._state

    def show(self, event: Json) -> None:
        """Show one event, a StreamResponse."""
        update = event.get("statusUpdate", {})
        if "task" in event or ATTEMPT in update.get("metadata", {}):
            # Either begins again with what it has of a call that is not complete.
            self._pieces.clear()
        for message in event.get("task", {}).get("history", ()):
            for part in message.get("parts", ()):
                self._note_call(part)
        self._show_state(event)
        child, depth = _innermost(update.get("metadata", {}).get(CHILD) or {})
        self._show_work(update.get("status", {}), str(child.get("task", "")), depth)
        self._show_child(child, depth)
        self._show_step(update.get("metadata", {}))
        self._show_memory(update.get("metadata", {}))
        if "task" in event:
            self._show_task(event["task"])
        if "artifactUpdate" in event:
            self._show_artifact(event["artifactUpdate"])
        if "message" in event:
            self._write_parts(event["message"].get("parts", []))

    def show_how_to_answer(self, task: str) -> None:
        """Say which command answers the question of `task`."""
        self.remark(f"answer with: {command_line('send', self.url)} --task {task} TEXT")

    def end(self) -> None:
        """End the last line of the answer, or of the reasoning."""
        if self._mid_thought:
            self.display.think("\n")
            self._mid_thought = False
        if self._mid_line:
            self._write("\n")

    def remark(self, line: str, depth: int = 0) -> None:
        """Show a line about the task, or about a child task at that `depth`."""
        self.end()
        self.display.remark(line, depth)

    def _show_task(self, task: Json) -> None:
        if task.get("metadata", {}).get(RECOVERED) is False:
            self.remark("the missed events are gone; this is the task's current state")
        for artifact in task.get("artifacts", []):
            self._seen.add(artifact.get("artifactId", ""))
            self._write_parts(artifact.get("parts", []))

    def _show_artifact(self, update: Json) -> None:
        artifact = update.get("artifact", {})
        known = artifact.get("artifactId", "") in self._seen
        if known and not update.get("append"):
            self.remark("a new attempt replaces the output above")
        self._seen.add(artifact.get("artifactId", ""))
        self._write_parts(artifact.get("parts", []))

    def _show_state(self, event: Json) -> None:
        state = state_of(event)
        if not state or state == self._state:
            return
        self._state = state
        bearer = event.get("task") or event["statusUpdate"]
        status = bearer["status"]
        self.remark(f"task {task_of(event)} {state.removeprefix('TASK_STATE_')}")
        if state == INPUT_REQUIRED:
            for interrupt in (bearer.get("metadata") or {}).get(INTERRUPTS) or ():
                self._show_calls_of(interrupt)
        if state not in ("TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"):
            self._write_parts(status.get("message", {}).get("parts", []))
        # The stream of AUTH_REQUIRED continues, so there is no prompt for an answer.
        if state == AUTH_REQUIRED or (state == INPUT_REQUIRED and self.hints):
            self.show_how_to_answer(task_of(event))

    def _show_work(self, status: Json, child: str, depth: int) -> None:
        """Show reasoning and tool calls on the way to the answer, or those of a child task."""
        if status.get("state") != WORKING:
            return
        who = f"{self._children[child]}: " if child in self._children else ""
        for part in status.get("message", {}).get("parts", []):
            if thought := parts.thinking_of([part]):
                block = part.get("metadata", {}).get(parts.BLOCK_ID, "")
                self._think(thought, (child, block), depth)
            elif (call := self._note_call(part)) is not None:
                self._show_call(call, who, depth)
            elif (result := parts.tool_result(part)) is not None:
                self.end()
                shown = result.error or _cut(_as_json(result.content))
                self.display.tool_result(shown, is_error=bool(result.error), depth=depth)

    def _note_call(self, part: Json) -> tuple[str, str] | None:
        """Note a call, or a piece of one; return the name and the arguments of a complete one."""
        if (whole := parts.tool_call(part)) is not None:
            call = self._calls[whole.id] = whole.name, _as_json(whole.arguments)
            return call
        if not parts.is_partial_tool_call(part):
            return None
        name = parts.tool_call_id(part)
        self._pieces[name] = f"{self._pieces.get(name, '')}{part.get('text', '')}"
        if not parts.is_block_end(part):
            return None
        call = self._calls[name] = parts.tool_name(part), self._pieces.pop(name) or "{}"
        return call

    def _show_call(self, call: tuple[str, str], who: str = "", depth: int = 0) -> None:
        name, arguments = call
        shown = _cut(arguments)
        if shown == arguments:
            self._shown_calls.add(_normal(call))
        self.end()
        self.display.tool_call(f"{who}{name}", shown, depth)

    def _show_calls_of(self, interrupt: Json) -> None:
        """Show the calls that an interrupt is about, whole, unless they were shown so."""
        for call in _calls_of(interrupt, self._calls):
            if _normal(call) not in self._shown_calls:
                self.end()
                self.display.tool_call(*call)

    def _think(self, text: str, source: tuple[str, str], depth: int) -> None:
        if self._mid_line or source != self._thought:
            self.end()
        self._thought = source
        self.display.think(text, depth)
        self._mid_thought = not text.endswith("\n")

    def _show_child(self, child: Json, depth: int) -> None:
        """Report that an agent started a child task of another agent, or the child's state."""
        task, state = str(child.get("task", "")), str(child.get("state", ""))
        if "agent" in child and task not in self._children:
            self._children[task] = child["agent"]
            self.remark(f"asks {child['agent']}: task {task}", depth)
        elif state:
            who = self._children.get(task, "agent")
            self.remark(f"{who} {state.removeprefix('TASK_STATE_')}: task {task}", depth)

    def _show_step(self, metadata: Json) -> None:
        step = ShownStep.of(metadata)
        if step is not None:
            took = "" if step.seconds is None else f" in {step.seconds:.3g} s"
            self.remark(f"step {step.name} {step.state}{took}")

    def _show_memory(self, metadata: Json) -> None:
        if written := shown_writes(metadata):
            counts = ", ".join(f"{kind} {count}" for kind, count in written.items())
            self.remark(f"memory written: {counts}")

    def _write_parts(self, items: list[Json]) -> None:
        for part in items:
            self._write(_readable(part))

    def _write(self, text: str) -> None:
        if text:
            if self._mid_thought:
                self._mid_thought = False
                self.display.think("\n")
            self.display.write(text)
            self._mid_line = not text.endswith("\n")


def _innermost(child: Json) -> tuple[Json, int]:
    """Return the child task whose event was relayed, and its depth; 0: it is the task's own."""
    depth = 1 if child else 0
    while isinstance(child.get("child"), dict):
        child, depth = child["child"], depth + 1
    return child, depth


def _calls_of(interrupt: Json, known: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the calls that an interrupt is about: by id, or as LangChain describes them."""
    if (call := known.get(interrupt.get("toolCallId", ""))) is not None:
        return [call]
    match interrupt.get("metadata"):
        case {"value": {"action_requests": [*described]}}:
            return [(str(each["name"]), _as_json(each.get("args"))) for each in described]
    return []


def _normal(call: tuple[str, str]) -> tuple[str, str]:
    """Return a call with arguments that can be compared, however a model has spaced them."""
    name, arguments = call
    try:
        return name, json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except ValueError:
        return call


def _as_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _readable(part: Json) -> str:
    if "text" in part:
        return str(part["text"])
    name = part.get("filename") or part.get("url") or "data"
    return one_line(f"[{name} {part.get('mediaType', '')}]").replace(" ]", "]") + "\n"
