"""A conversation in the form that models accept: messages by role, in their original order.

All adapters read the same conversation and only translate it. A task's turns come from its log,
which has the order of text, reasoning and tool calls. An AG-UI client sends the conversation as its
user sees it. Output of delegated tasks is not included; their own conversations contain it. A tool
call without a result stays open; `answered` closes it for frameworks that reject open calls.

A framework that needs more of a model's response than the log contains (signatures,
provider-specific fields) stores the response as `Verbatim`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import orjson

from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart

type Role = Literal["system", "user", "assistant", "tool"]

RESPONSE = "headrace.response"
"""Key in a checkpoint's data: the model's verbatim response that ends there (`Verbatim`)."""
RESULT = "headrace.result"
"""Key in a checkpoint's data: the verbatim tool result stored with it (`Verbatim`)."""

NAMES = "headrace.names"
"""Key in a checkpoint's data: a remote agent's message ids (`MessageIds`)."""


@dataclass(slots=True)
class MessageIds:
    """A remote agent's message ids, for the pieces that have none yet."""

    text: list[str] = field(default_factory=list)
    """Of text blocks, in the order in which they began."""
    reasoning: list[str] = field(default_factory=list)
    """Of reasoning blocks."""
    calls: dict[str, str] = field(default_factory=dict)
    """Of the messages with tool calls, by call id."""
    results: dict[str, str] = field(default_factory=dict)
    """Of the messages with tool results, by call id."""


@dataclass(slots=True)
class TextItem:
    """A block of answer text."""

    text: str
    id: str = ""
    """Id of the block."""
    origin: str = ""
    """Id of the remote agent's message that contains it."""
    asks: bool = False
    """Whether it is the prompt of a question that ended a run."""


@dataclass(slots=True)
class ReasoningItem:
    """A block of a model's reasoning."""

    text: str
    id: str = ""
    """Id of the block."""
    encrypted: str = ""
    """Opaque value that the model's provider requires with the reasoning."""
    origin: str = ""
    """See `TextItem.origin`."""


@dataclass(slots=True)
class CallItem:
    """A tool call."""

    id: str
    name: str
    arguments: Any
    """JSON value, or the raw text if the model's output was not valid JSON."""
    text: str = ""
    """The arguments as the model wrote them, if it streamed them."""
    encrypted: str = ""
    """See `ReasoningItem.encrypted`."""
    origin: str = ""
    """See `TextItem.origin`."""

    @classmethod
    def of_text(cls, name: str, tool: str, text: str, encrypted: str = "") -> Self:
        """Return the call with id `name` of `tool`, with arguments as the model wrote them."""
        text = text or "{}"
        try:
            return cls(name, tool, json_text.decode_foreign(text), text, encrypted)
        except orjson.JSONDecodeError:
            # Invalid JSON is returned to the model exactly as it wrote it.
            return cls(name, tool, text, text, encrypted)

    @property
    def is_json(self) -> bool:
        """Whether the arguments are valid JSON; a truncated response leaves incomplete JSON."""
        return not self.text or self.arguments != self.text

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text, as the model wrote them if known."""
        if self.text or isinstance(self.arguments, str):
            return self.text or self.arguments
        return json_text.text(self.arguments)


@dataclass(slots=True)
class ResultItem:
    """A file or structured data that the agent returned as a result."""

    part: Json
    """An A2A v1.0 Part."""
    id: str = ""
    """Id of the artifact."""
    name: str = ""
    """Name of the artifact."""

    @property
    def text(self) -> str:
        """Its text in a conversation: data as JSON, a file as its name."""
        if "data" in self.part:
            return json_text.as_text(self.part["data"])
        part = self.part
        return f"[file {self.name or part.get('filename') or part.get('mediaType') or 'unnamed'}]"


type Item = TextItem | ReasoningItem | CallItem | ResultItem
"""A piece of an agent's output."""


@dataclass(slots=True)
class Verbatim:
    """A model's response, or a tool's result, as the adapter received it."""

    format: str
    """Name of the format; only the adapter that wrote it can read it."""
    response: Any = None
    """JSON; None if stored at `link`."""
    link: str = ""
    """Link to a large response in the object store."""


@dataclass(slots=True)
class Turn:
    """Consecutive output of one role; for an agent, one response of its model."""

    role: Role
    id: str = ""
    """Id of the message; a tool result's is derived from its call's."""
    task: str = ""
    run: int = 0
    """Generation of the input whose run this belongs to; 0 if an AG-UI client sent it."""
    parts: Sequence[Json] = ()
    """For user and system: A2A v1.0 Parts."""
    items: list[Item] = field(default_factory=list)
    """For the agent: its output."""
    result: ToolResultPart | None = None
    """For a tool: its result."""
    verbatim: Verbatim | None = None
    """For the agent or a tool: the verbatim response or result, if stored."""
    is_complete: bool = False
    """Whether the response is known to be complete."""
    origin: str = ""
    """For a tool: see `TextItem.origin`."""
    answers: bool = False
    """For the user: whether it answers the previous run's interrupts."""
    is_last: bool = False
    """For the agent: whether it ends a completed run, behind responses that were saved."""

    @property
    def text(self) -> str:
        """The text, without reasoning, files and data."""
        if self.role == "assistant":
            return "".join(item.text for item in self.items if isinstance(item, TextItem))
        return parts.text_of(self.parts)

    @property
    def calls(self) -> list[CallItem]:
        """The tool calls, in order."""
        return [item for item in self.items if isinstance(item, CallItem)]


def user_turn(message: Json, task: str = "", run: int = 0) -> list[Turn]:
    """Return the turns of a user's A2A Message: the tool results, then the other parts."""
    others, turns = list[Json](), list[Turn]()
    for part in message.get("parts", ()):
        if (result := parts.tool_result(part)) is not None:
            turns.append(Turn("tool", f"{result.id}-result", task, run, result=result))
        else:
            others.append(part)
    if others:
        turns.append(Turn("user", message.get("messageId", ""), task, run, others))
    return turns


def without_restated(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns without what an agent made of its model's last response.

    This is a structured answer, or a tool's result that is the answer: frameworks do not send it to
    the model. Only an adapter that saves every response can tell it from the model's own output.
    """
    kept, saved = list[Turn](), set[tuple[str, int]]()
    for turn in turns:
        run = turn.task, turn.run
        if turn.verbatim is not None and turn.role == "assistant":
            saved.add(run)
        if not (turn.is_last and run in saved):
            kept.append(turn)
    return kept


def answered(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns with every tool call answered, because models reject open calls.

    A call without a result gets an error as its result. Results are in the order of the calls, as
    frameworks send them, whichever tool was faster. Results without a call, and answers to
    interrupts about calls (see `without_answers`), are left out.
    """
    kept, results = list[Turn](), dict[str, Turn]()
    asking: Turn | None = None
    for turn in without_answers(turns):
        if turn.role != "tool":
            kept += [*_answers(asking, results), turn]
            asking, results = turn, {}
        elif turn.result is not None:
            results.setdefault(turn.result.id, turn)
    return kept + _answers(asking, results)


def _answers(asking: Turn | None, results: Mapping[str, Turn]) -> list[Turn]:
    """Return the results of the calls of `asking`, one per call."""
    if asking is None:
        return []
    calls = dict.fromkeys(call.id for call in asking.calls)
    return [results.get(call) or _unanswered(call, asking) for call in calls]


def without_answers(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns without the user's answers to interrupts about tool calls.

    The calls' results already contain the answers. Other parts of an answer's message follow the
    results.
    """
    kept, deferred, still_open = list[Turn](), list[Turn](), set[str]()
    for turn in turns:
        if turn.role == "user" and turn.answers and still_open:
            if rest := other_parts(turn.parts):
                deferred.append(replace(turn, parts=rest))
            continue
        if turn.role == "tool" and turn.result is not None:
            still_open.discard(turn.result.id)
        else:
            kept += deferred
            deferred, still_open = [], {call.id for call in turn.calls}
        kept.append(turn)
    return [*kept, *deferred]


def with_question(turns: Sequence[Turn], run: int) -> list[Turn]:
    """Return the turns of a run and, if its input answers the run before, those of that one, too.

    Interrupts are answered, and calls of a client's tools. `turns` are those of the task.
    """
    earlier = [turn for turn in turns if turn.run < run]
    called = {call.id for turn in earlier for call in turn.calls}
    mine = [turn for turn in turns if turn.run == run]
    if any(turn.answers or (turn.result and turn.result.id in called) for turn in mine):
        return [*with_question(earlier, max(turn.run for turn in earlier)), *mine]
    return mine


def other_parts(content: Sequence[Json]) -> list[Json]:
    """Return the parts of an answer to interrupts that answer none.

    A message that names no interrupt is an answer as a whole: the result is empty.
    """
    others = [part for part in content if not parts.interrupt_id(part)]
    return others if len(others) < len(content) else []


def open_calls(turns: Sequence[Turn]) -> list[CallItem]:
    """Return the calls of the last response that have no result, in order."""
    done = set[str]()
    for turn in reversed(turns):
        if turn.role == "tool" and turn.result is not None:
            done.add(turn.result.id)
        elif turn.role == "assistant":
            return [call for call in turn.calls if call.id not in done]
    return []


def _unanswered(call: str, turn: Turn) -> Turn:
    result = ToolResultPart(call, "", "there was no answer", is_error=True)
    return Turn("tool", f"{call}-result", turn.task, turn.run, result=result)
