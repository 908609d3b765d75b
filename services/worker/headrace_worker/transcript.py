"""A conversation as models take it: turns, in the order in which they were said.

A task's own turns are read from its log, which alone knows the order of text and tool calls. What
an AG-UI client sends is the conversation as it sees it, and is taken as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from headrace import parts
from headrace.events import DISCARDED_AFTER, Json
from headrace.parts import ToolCallPart, ToolResultPart
from headrace.task import COMPLETED, INPUT_REQUIRED

type Role = Literal["system", "user", "assistant", "tool"]


@dataclass(slots=True)
class Turn:
    """What one side said until the other's turn came."""

    role: Role
    text: str = ""
    parts: Sequence[Json] = ()
    """The user's, A2A Parts."""
    calls: list[ToolCallPart] = field(default_factory=list)
    """The assistant's."""
    result: ToolResultPart | None = None
    """The tool's."""


class Transcript:
    """Collects turns."""

    def __init__(self) -> None:
        """Begin with none."""
        self.turns: list[Turn] = []
        self._arguments: dict[str, list[str]] = {}

    def take_message(self, message: Json, *, shown: bool = True) -> None:
        """Take a message; text of the agent's counts where it is `shown` as an answer."""
        content = message.get("parts", [])
        if message.get("role") == "ROLE_USER":
            self.take_input(content)
            return
        for part in content:
            self._take_part(part, shown=shown)

    def take_input(self, content: Sequence[Json]) -> None:
        """Take what a user said, or what a user interface's tools answered."""
        results = [result for part in content if (result := parts.tool_result(part)) is not None]
        self.turns += [Turn("tool", result=result) for result in results]
        if rest := [part for part in content if parts.tool_result(part) is None]:
            self.turns.append(Turn("user", parts.text_of(rest), rest))

    def take_text(self, text: str) -> None:
        """Take a piece of the agent's answer."""
        if text:
            self._assistant().text += text

    def _take_part(self, part: Json, *, shown: bool) -> None:
        if (result := parts.tool_result(part)) is not None:
            self.turns.append(Turn("tool", result=result))
        elif (call := parts.tool_call(part)) is not None:
            self._assistant().calls.append(call)
        elif parts.is_partial_tool_call(part):
            self._take_arguments(part)
        elif shown:
            self.take_text(parts.text_of([part]))

    def _take_arguments(self, part: Json) -> None:
        call = parts.tool_call_id(part)
        self._arguments.setdefault(call, []).append(part.get("text", ""))
        if parts.is_block_end(part):
            text = "".join(self._arguments.pop(call))
            self._assistant().calls.append(ToolCallPart(call, parts.tool_name(part), _parsed(text)))

    def _assistant(self) -> Turn:
        if not self.turns or self.turns[-1].role != "assistant":
            self.turns.append(Turn("assistant"))
        return self.turns[-1]


def turns_of_log(log: Iterable[tuple[int, Json]]) -> list[Turn]:
    """Return the turns of one task, from its events with their generations."""
    told = Transcript()
    for _, event in _kept(log):
        if "task" in event:
            for message in event["task"].get("history", []):
                told.take_message(message)
        elif (status := event.get("statusUpdate", {}).get("status")) is not None:
            shown = status.get("state") in {COMPLETED, INPUT_REQUIRED}
            told.take_message(status.get("message", {}), shown=shown)
        elif (artifact := event.get("artifactUpdate", {}).get("artifact")) is not None:
            told.take_text(parts.text_of(artifact.get("parts", [])))
    return told.turns


def turns_of_task(task: Json) -> list[Turn]:
    """Return the turns of a task that is known as a whole: its messages, then its answer."""
    told = Transcript()
    for message in task.get("history", []):
        told.take_message({**message, "parts": list(filter(_is_plain, message.get("parts", [])))})
    for artifact in task.get("artifacts", []):
        told.take_text(parts.text_of(artifact.get("parts", [])))
    told.take_message(task.get("status", {}).get("message", {}))
    return told.turns


def turns_of_agui(messages: Iterable[Json], content: Sequence[Json]) -> list[Turn]:
    """Return the turns of an AG-UI client's messages.

    The one that became the run's input stands there without its content, which is `content`.
    """
    told = Transcript()
    for message in messages:
        said = message.get("content")
        match message.get("role"):
            case "system" | "developer":
                told.turns.append(Turn("system", said or ""))
            case "user" if said is None:
                told.take_input(content)
            case "user":
                told.take_input([{"text": _plain(said)}])
            case "assistant":
                calls = [_agui_call(call) for call in message.get("toolCalls") or ()]
                told.turns.append(Turn("assistant", said or "", calls=calls))
            case "tool":
                error = message.get("error") or ""
                result = ToolResultPart(message["toolCallId"], said, error, bool(error))
                told.turns.append(Turn("tool", result=result))
    return told.turns


def answered(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns with every tool call answered, for models refuse what is not.

    A call that got no result is told so; a result without its call is left out.
    """
    told, open_calls = list[Turn](), dict[str, str]()
    for turn in turns:
        if turn.role == "tool":
            if turn.result is None or open_calls.pop(turn.result.id, None) is None:
                continue
        else:
            told += [_unanswered(call) for call in open_calls]
            open_calls = {call.id: call.name for call in turn.calls}
        told.append(turn)
    return [*told, *(_unanswered(call) for call in open_calls)]


def _kept(log: Iterable[tuple[int, Json]]) -> list[tuple[int, Json]]:
    """Return the events that no attempt has discarded."""
    kept: list[tuple[int, Json]] = []
    for generation, event in log:
        metadata = event.get("statusUpdate", {}).get("metadata", {})
        if isinstance(after := metadata.get(DISCARDED_AFTER), int):
            while kept and kept[-1][0] > after:
                kept.pop()
        kept.append((generation, event))
    return kept


def _is_plain(part: Json) -> bool:
    return parts.event_type(part) != parts.TOOL_CALL


def _unanswered(call: str) -> Turn:
    return Turn("tool", result=ToolResultPart(call, "", "it was not answered", is_error=True))


def _agui_call(call: Json) -> ToolCallPart:
    function = call.get("function", {})
    return ToolCallPart(call["id"], function.get("name", ""), _parsed(function.get("arguments")))


def _parsed(arguments: Any) -> Any:  # noqa: ANN401  # any JSON
    try:
        return orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        # What a model has said wrong, it is told again as it said it.
        return arguments


def _plain(said: Any) -> str:  # noqa: ANN401  # AG-UI's content
    if isinstance(said, str):
        return said
    return "".join(piece.get("text", "") for piece in said if isinstance(piece, dict))
