"""Conversion of parts to AG-UI events, by the type in their metadata."""

from collections.abc import Callable

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.parts import TITLE
from headrace.model.run_ids import unique_id
from headrace.model.step import STARTED, ShownStep
from headrace.model.usage_counts import add_usage
from headrace_gateway.protocols.agui.activities import Activities
from headrace_gateway.protocols.agui.agents_messages import AgentsMessages
from headrace_gateway.protocols.agui.blocks import REASONING, TEXT, BlockMessages
from headrace_gateway.protocols.agui.call_names import CallNames
from headrace_gateway.protocols.agui.output import Event, OpenItem, Output
from headrace_gateway.protocols.agui.snapshot import StateEvents
from headrace_gateway.protocols.agui.surfaces import SurfaceEvents
from headrace_gateway.protocols.agui.tool_calls import ToolCalls
from headrace_gateway.protocols.agui.view import View

_USE = "thinking"
_CLOSING: tuple[Event, ...] = (("THINKING_TEXT_MESSAGE_END", {}), ("THINKING_END", {}))


class Thoughts:
    """Converts pieces of reasoning to THINKING events."""

    def __init__(self, output: Output) -> None:
        """Emit to `output`."""
        self._output = output

    def piece(self, part: Json, block: str) -> None:
        """Emit a piece of `block`, and the block's end if the part marks it.

        Raises:
            TypeError: the text is not a string.
        """
        text = part["text"]
        if not isinstance(text, str):
            raise TypeError("text must be a string")
        if text:
            self._turn_to(block, parts.metadata_of(part, TITLE))
            self._output.emit("THINKING_TEXT_MESSAGE_CONTENT", delta=text)
        if parts.is_block_end(part):
            self._output.end((_USE, block))

    def _turn_to(self, block: str, title: object) -> None:
        if (_USE, block) in self._output.open:
            return
        titled = {"title": title} if isinstance(title, str) and title else {}
        opening: tuple[Event, ...] = (
            ("THINKING_START", titled),
            ("THINKING_TEXT_MESSAGE_START", {}),
        )
        self._output.begin_alone((_USE, block), OpenItem(opening, _CLOSING))


class PartEvents:
    """Converts parts to events, independent of the log event that contains them."""

    def __init__(
        self, output: Output, view: View, calls: CallNames, *, modern: bool, thinking: bool = False
    ) -> None:
        """Emit to `output`; `modern` means that the client supports AG-UI 1.0.

        `thinking` selects THINKING events instead of REASONING events.
        """
        self._output, self._view, self._modern = output, view, modern
        self.text = BlockMessages(TEXT, output, view)
        self.reasoning = Thoughts(output) if thinking else BlockMessages(REASONING, output, view)
        self.activities = Activities(output, view)
        self.calls = calls
        self._subagents: dict[str, int] = {}
        self._by_type = self._handlers(ToolCalls(output, view, self.text, calls, modern=modern))

    def _handlers(self, calls: ToolCalls) -> dict[str, Callable[[Json, str], None]]:
        state = StateEvents(self._output, self._view)
        return {
            parts.TOOL_CALL: calls.part,
            parts.STATE_SNAPSHOT: state.snapshot,
            parts.STATE_DELTA: state.delta,
            parts.MESSAGES_SNAPSHOT: AgentsMessages(self._output, self._view, self.calls).snapshot,
            parts.ACTIVITY_SNAPSHOT: self.activities.snapshot,
            parts.ACTIVITY_DELTA: self.activities.delta,
            parts.SURFACES: SurfaceEvents(self._output, self._view).part,
            parts.STEP_STARTED: self._step_started,
            parts.STEP_FINISHED: self._step_finished,
            parts.SUBAGENT_STARTED: self._subagent_started,
            parts.SUBAGENT_FINISHED: self._subagent_finished,
            parts.USAGE: self._usage,
            parts.CUSTOM: self._custom,
            parts.RAW: self._raw,
        }

    def emit(self, part: Json, name: str) -> bool:
        """Emit `part`, under `name` unless it has its own block id.

        Returns:
            False if the part is of no known type: a file, data or a notice.

        Raises:
            ValueError, KeyError, TypeError: the part does not match its metadata.
        """
        name = parts.block_id(part) or name
        if "text" in part and parts.is_thinking(part):
            self.reasoning.piece(part, name)
        elif parts.is_answer(part):
            self.text.piece(part, name)
        elif (handle := self._by_type.get(parts.event_type(part))) is not None:
            handle(part, name)
        else:
            return False
        return True

    def step(self, step: ShownStep) -> None:
        """Emit what an event shows of a recorded step: its start, its end, or both at once."""
        if step.state == STARTED:
            self._begin_step(step.name)
        elif not self._output.end(("step", step.name)):
            self._begin_step(step.name)
            self._output.end(("step", step.name))

    def _step_started(self, part: Json, name: str) -> None:
        self._begin_step(_named(part, parts.STEP_NAME, name))

    def _begin_step(self, step: str) -> None:
        self._output.end(("step", step))
        fields = {"stepName": step}
        item = OpenItem((("STEP_STARTED", fields),), (("STEP_FINISHED", fields),))
        self._output.begin(("step", step), item)

    def _step_finished(self, part: Json, name: str) -> None:
        self._output.end(("step", _named(part, parts.STEP_NAME, name)))

    def _subagent_started(self, part: Json, _name: str) -> None:
        """Emit the start of a subagent; as a step for clients of 0.x."""
        own, name = part["data"]["id"], part["data"]["name"]
        if not self._modern:
            self._begin_step(name)
            return
        self._output.end(("subagent", own))
        # Clients accept the id of a subagent run once, whatever a new attempt retracts.
        number = self._subagents[own] = self._subagents.get(own, 0) + 1
        subagent = unique_id(own, self._output.digest, number)
        host = self._output.subagent
        nested = {"parentSubagentRunId": host} if host else {}
        opening = ("SUBAGENT_STARTED", {"subagentRunId": subagent, "name": name, **nested})
        item = OpenItem((opening,), (_finished(subagent, "success"),), subagent)
        self._output.begin(("subagent", own), item)

    def _subagent_finished(self, part: Json, _name: str) -> None:
        own, outcome = part["data"]["id"], part["data"]["outcome"]
        item = self._output.open.get(("subagent", own))
        if item is not None:
            item.closing = (_finished(item.id, outcome),)
        key = ("subagent", own) if self._modern else ("step", part["data"]["name"])
        self._output.end(key)

    def _usage(self, part: Json, _name: str) -> None:
        add_usage(self._view.usage, part["data"])

    def _custom(self, part: Json, name: str) -> None:
        self._output.emit("CUSTOM", name=_named(part, parts.CUSTOM_NAME, name), value=part["data"])

    def _raw(self, part: Json, _name: str) -> None:
        source = _named(part, parts.SOURCE, "")
        self._output.emit("RAW", event=part["data"], **({"source": source} if source else {}))


def _finished(subagent: str, outcome: str) -> tuple[str, Json]:
    fields: Json = {"subagentRunId": subagent, "outcome": {"type": outcome}}
    return "SUBAGENT_FINISHED", fields


def _named(part: Json, key: str, default: str) -> str:
    name = parts.metadata_of(part, key)
    return name if isinstance(name, str) and name else default


def render_message(events: PartEvents, message: Json, name: str, *, final: bool) -> None:
    """Emit a message called `name`; in the `final` message, notices are answers.

    Raises:
        ValueError, KeyError, TypeError: a part does not match its metadata.
    """
    rest = []
    for part in message.get("parts", []):
        if not events.emit(part, name):
            rest.append(part)
        elif parts.is_answer(part) and not parts.event_type(part):
            # The agent does not use blocks, so the part is complete.
            events.text.end(parts.block_id(part) or name)
    notice = "".join(part["text"] for part in rest if _is_notice(part))
    if notice and final:
        events.text.emit(name, notice)
        events.text.end(name)
    elif notice:
        events.activities.status(name, notice)
    if files := [part for part in rest if not _is_notice(part)]:
        events.activities.artifact({"artifactId": name, "parts": files}, append=False)


def _is_notice(part: Json) -> bool:
    return "text" in part and not part.get("filename")
