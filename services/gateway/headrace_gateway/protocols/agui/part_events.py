"""Each part as AG-UI events, by what its metadata says it is."""

from collections.abc import Callable

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.parts import TITLE
from headrace_gateway.protocols.agui.activities import Activities
from headrace_gateway.protocols.agui.agents_messages import AgentsMessages
from headrace_gateway.protocols.agui.blocks import REASONING, TEXT, BlockMessages
from headrace_gateway.protocols.agui.output import Event, OpenItem, Output
from headrace_gateway.protocols.agui.snapshot import StateEvents
from headrace_gateway.protocols.agui.tool_calls import ToolCalls
from headrace_gateway.protocols.agui.view import View

_USE = "thinking"
_CLOSING: tuple[Event, ...] = (("THINKING_TEXT_MESSAGE_END", {}), ("THINKING_END", {}))


class Thoughts:
    """Turns the pieces of reasoning into THINKING events."""

    def __init__(self, output: Output) -> None:
        """Say them to `output`."""
        self._output = output

    def piece(self, part: Json, block: str) -> None:
        """Say a piece of `block`, and the block's end where the part says so.

        Raises:
            TypeError: its text is none.
        """
        text = part["text"]
        if not isinstance(text, str):
            raise TypeError("text is a string")
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


_LABELS = ("provider", "model")
_COUNTS = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "reasoningTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
)
_MOST = 2**53 - 1
"""Counts above this do not survive JavaScript; a client would refuse the event."""


def add_usage(usage: list[Json], more: object) -> None:
    """Add `more`, an AG-UI TokenUsage, to the entry of its provider and model.

    What is no label or count is left out: clients refuse an event with a count that is none.
    """
    if not isinstance(more, dict):
        return
    labels = {key: more[key] for key in _LABELS if isinstance(more.get(key), str)}
    counts = {key: int(more[key]) for key in _COUNTS if _is_count(more.get(key))}
    if not counts:
        return
    for at, entry in enumerate(usage):
        if all(entry.get(key) == labels.get(key) for key in _LABELS):
            sums = {key: min(entry.get(key, 0) + count, _MOST) for key, count in counts.items()}
            usage[at] = {**entry, **sums}
            return
    usage.append({**labels, **counts})


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _MOST and int(value) == value


_ANSWER = frozenset({"", "message", "text", parts.CONTENT_BLOCK})


class PartEvents:
    """Says parts, whichever event of the log they come in."""

    def __init__(self, output: Output, view: View, *, modern: bool, thinking: bool = False) -> None:
        """Say them to `output`, for a client that knows 1.0 if `modern`.

        `thinking`: it wants THINKING events, and no reasoning.
        """
        self._output, self._view, self._modern = output, view, modern
        self.text = BlockMessages(TEXT, output, view)
        self.reasoning = Thoughts(output) if thinking else BlockMessages(REASONING, output, view)
        self.activities = Activities(output, view)
        self._by_type = self._handlers(ToolCalls(output, view, self.text, modern=modern))

    def _handlers(self, calls: ToolCalls) -> dict[str, Callable[[Json, str], None]]:
        state = StateEvents(self._output, self._view)
        return {
            parts.TOOL_CALL: calls.part,
            parts.STATE_SNAPSHOT: state.snapshot,
            parts.STATE_DELTA: state.delta,
            parts.MESSAGES_SNAPSHOT: AgentsMessages(self._output, self._view).snapshot,
            parts.ACTIVITY_SNAPSHOT: self.activities.snapshot,
            parts.ACTIVITY_DELTA: self.activities.delta,
            parts.STEP_STARTED: self._step_started,
            parts.STEP_FINISHED: self._step_finished,
            parts.SUBAGENT_STARTED: self._subagent_started,
            parts.SUBAGENT_FINISHED: self._subagent_finished,
            parts.USAGE: self._usage,
            parts.CUSTOM: self._custom,
            parts.RAW: self._raw,
        }

    def say(self, part: Json, name: str) -> bool:
        """Say `part`, under `name` unless it names its own block.

        Return False where it is none of these: a file, data, a notice.

        Raises:
            ValueError, KeyError, TypeError: it is not what its metadata says.
        """
        name = parts.block_id(part) or name
        if "text" in part and parts.is_thinking(part):
            self.reasoning.piece(part, name)
        elif is_answer(part):
            self.text.piece(part, name)
        elif (handle := self._by_type.get(parts.event_type(part))) is not None:
            handle(part, name)
        else:
            return False
        return True

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
        """Say who goes on: to clients of 0.x as a step."""
        subagent, name = part["data"]["id"], part["data"]["name"]
        if not self._modern:
            self._begin_step(name)
            return
        self._output.end(("subagent", subagent))
        host = self._output.subagent
        nested = {"parentSubagentRunId": host} if host else {}
        opening = ("SUBAGENT_STARTED", {"subagentRunId": subagent, "name": name, **nested})
        item = OpenItem((opening,), (_finished(subagent, "success"),))
        self._output.begin(("subagent", subagent), item)

    def _subagent_finished(self, part: Json, _name: str) -> None:
        subagent, outcome = part["data"]["id"], part["data"]["outcome"]
        item = self._output.open.get(("subagent", subagent))
        if item is not None:
            item.closing = (_finished(subagent, outcome),)
        key = ("subagent", subagent) if self._modern else ("step", part["data"]["name"])
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


def is_answer(part: Json) -> bool:
    """Tell whether the part is answer text: no file, no reasoning, no notice."""
    return "text" in part and not part.get("filename") and parts.event_type(part) in _ANSWER


def _named(part: Json, key: str, default: str) -> str:
    name = parts.metadata_of(part, key)
    return name if isinstance(name, str) and name else default


def utter(said: PartEvents, message: Json, name: str, *, final: bool) -> None:
    """Say a message called `name`; where it is the `final` one, notices are answers.

    Raises:
        ValueError, KeyError, TypeError: a part is not what its metadata says.
    """
    rest = []
    for part in message.get("parts", []):
        if not said.say(part, name):
            rest.append(part)
        elif is_answer(part) and not parts.event_type(part):
            # Said in one go by an agent that knows no blocks.
            said.text.end(parts.block_id(part) or name)
    notice = "".join(part["text"] for part in rest if _is_notice(part))
    if notice and final:
        said.text.say(name, notice)
        said.text.end(name)
    elif notice:
        said.activities.status(name, notice)
    if files := [part for part in rest if not _is_notice(part)]:
        said.activities.artifact({"artifactId": name, "parts": files}, append=False)


def _is_notice(part: Json) -> bool:
    return "text" in part and not part.get("filename")
