"""A conversation in the form that models accept: messages by role, in their original order.

All adapters read the same conversation and only translate it. A task's turns come from its log,
which has the order of text, reasoning and tool calls. An AG-UI client sends the conversation as its
user sees it. Output of delegated tasks is not included; their own conversations contain it. A tool
call without a result stays open; `answered` closes it for frameworks that reject open calls.

A framework that needs more of a model's response than the log contains (signatures,
provider-specific fields) stores the response as `Verbatim`.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

import orjson

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import AGUI, DISCARDED_AFTER, INTERRUPTS, QUEUED, RETRACTED, TAKEN, Json
from headrace.model.parts import ToolResultPart
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, SUBMITTED
from headrace.model.user_content import to_parts
from headrace.sdk.tools import as_text
from headrace_worker.checkpoint import decode
from headrace_worker.shared_state import SharedState

type Role = Literal["system", "user", "assistant", "tool"]

RESPONSE = "headrace.response"
"""Key in a checkpoint's data: the model's verbatim response that ends there (`Verbatim`)."""
RESULT = "headrace.result"
"""Key in a checkpoint's data: the verbatim tool result stored with it (`Verbatim`)."""
_SNAPSHOT = f'"{parts.MESSAGES_SNAPSHOT}"'.encode()
"""Events whose JSON lacks this string contain no conversation snapshot."""

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
            return cls(name, tool, orjson.loads(text), text, encrypted)
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
        return orjson.dumps(self.arguments).decode()


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
            return as_text(self.part["data"])
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


def turns_of_log(log: Iterable[Entry], task: str = "", last: int = sys.maxsize) -> list[Turn]:
    """Return the turns of one task from its log, up to generation `last`."""
    builder = _Log(task)
    for generation, event, checkpoint in _kept(log):
        if generation > last:
            break
        builder.take(generation, event)
        if checkpoint is not None and isinstance(data := decode(checkpoint).data, dict):
            builder.take_response(data.get(RESPONSE))
            builder.take_result(data.get(RESULT))
            builder.take_names(data.get(NAMES))
    return builder.turns


def state_of_logs(logs: Iterable[Iterable[Entry]]) -> Any:  # noqa: ANN401  # any JSON
    """Return the state that the agent shares with its user interface, after all `logs`."""
    shared = SharedState()
    for log in logs:
        for _, event, _ in _kept(log):
            update = event.get("statusUpdate") or {}
            metadata = (event.get("task") or update).get("metadata") or {}
            if CHILD in metadata:
                continue
            if (state := (metadata.get(AGUI) or {}).get("state")) is not None:
                shared = SharedState(state)
            for part in ((update.get("status") or {}).get("message") or {}).get("parts", ()):
                shared.replay(part)
    return shared.now


def snapshot_of_logs(logs: Sequence[Sequence[Entry]]) -> tuple[list[Json], list[Turn]]:
    """Return the last conversation set by a remote agent, and the turns that it replaces.

    The conversation is a list of AG-UI messages, as sent in MESSAGES_SNAPSHOT; it is empty if none
    was set.
    """
    for number in range(len(logs) - 1, -1, -1):
        messages, last = _snapshot(logs[number])
        if last:
            covered = [turn for log in logs[:number] for turn in turns_of_log(log)]
            return messages, [*covered, *turns_of_log(logs[number], last=last)]
    return [], []


def turns_of_agui(
    messages: Iterable[Json], content: Sequence[Json], known: Sequence[Turn] = ()
) -> list[Turn]:
    """Return the turns of an AG-UI client's messages.

    `content` is the content of the run's input, which is missing from its message. If a response is
    among `known`, the turns of the thread's logs, and the client has it unchanged, then the known
    turn is returned: it includes what the client never received.
    """
    return list(_AgUi(known).turns(messages, content))


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


def answered(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns with every tool call answered, because models reject open calls.

    A call without a result gets an error as its result. Results without a call, and answers to
    interrupts about calls (see `without_answers`), are left out.
    """
    kept, still_open = list[Turn](), dict[str, Turn]()
    for turn in without_answers(turns):
        if turn.role == "tool":
            if turn.result is None or still_open.pop(turn.result.id, None) is None:
                continue
        else:
            kept += map(_unanswered, still_open, still_open.values())
            still_open = {call.id: turn for call in turn.calls}
        kept.append(turn)
    return [*kept, *map(_unanswered, still_open, still_open.values())]


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


class _Log:
    """Builder of a log's turns."""

    def __init__(self, task: str) -> None:
        self.turns: list[Turn] = []
        self._task, self._run = task, 0
        self._run_start, self._is_asked = 0, False
        self._arguments: dict[str, list[str]] = {}
        self._credentials = set[int]()

    def take(self, generation: int, event: Json) -> None:
        """Add an event; malformed events and events of delegated tasks are ignored."""
        if "task" in event:
            self._begin(generation, event["task"])
        elif "message" in event:
            self._take_message(event["message"])
        elif (update := event.get("statusUpdate")) is not None:
            self._take_status(generation, update)
        elif (update := event.get("artifactUpdate")) is not None:
            self._take_artifact(update)

    def take_response(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
        """Add a checkpoint's data on the response that ends with it."""
        if not isinstance(kept, dict):
            return
        turn = self._turn("")
        turn.is_complete = True
        turn.verbatim = _verbatim(kept)

    def take_result(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
        """Add a checkpoint's data on the tool result stored with it."""
        if isinstance(kept, dict) and self.turns and self.turns[-1].role == "tool":
            self.turns[-1].verbatim = _verbatim(kept)

    def take_names(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
        """Add a checkpoint's message ids to the run's output so far."""
        if not isinstance(kept, dict):
            return
        names = MessageIds(
            **{each.name: kept[each.name] for each in fields(MessageIds) if each.name in kept}
        )
        run = self.turns[self._run_start :]
        items = [item for turn in run if turn.role == "assistant" for item in turn.items]
        _name([each for each in items if isinstance(each, TextItem) and not each.asks], names.text)
        _name([each for each in items if isinstance(each, ReasoningItem)], names.reasoning)
        for item in items:
            if isinstance(item, CallItem):
                item.origin = item.origin or names.calls.get(item.id, "")
        for turn in run:
            if turn.result is not None:
                turn.origin = turn.origin or names.results.get(turn.result.id, "")

    def _begin(self, generation: int, task: Json) -> None:
        if generation == 1:
            self._run, self._task = generation, task.get("id", self._task)
            for message in task.get("history", ()):
                self._take_message(message)

    def _take_status(self, generation: int, update: Json) -> None:
        metadata, status = update.get("metadata") or {}, update.get("status") or {}
        if CHILD in metadata:
            return
        if QUEUED in metadata:
            if status.get("state") == AUTH_REQUIRED:
                # The answer is a credential, which models must not see.
                self._credentials.add(generation)
            return
        if status.get("state") == SUBMITTED:
            self._run, self._run_start = generation, len(self.turns)
        # Models must not see credential requests. An approval's prompt was not written by a model.
        is_shown = status.get("state") != AUTH_REQUIRED and not _asks_for_approval(metadata)
        if is_shown and metadata.get(TAKEN) not in self._credentials:
            self._take_message(status.get("message") or {})
        if status.get("state") == SUBMITTED:
            for turn in self.turns[self._run_start :]:
                turn.answers = self._is_asked and turn.role == "user"
            self._is_asked = False
        elif status.get("state") == INPUT_REQUIRED:
            self._is_asked = bool(metadata.get(INTERRUPTS))
            self._mark_prompt((status.get("message") or {}).get("messageId"))

    def _mark_prompt(self, name: str | None) -> None:
        for item in self.turns[-1].items if self.turns else ():
            if isinstance(item, TextItem) and item.id == name:
                item.asks = True

    def _take_message(self, message: Json) -> None:
        if message.get("role") == "ROLE_USER":
            self.turns += user_turn(message, self._task, self._run)
            return
        for part in message.get("parts", ()):
            self._take_part(part, message.get("messageId", ""))

    def _take_artifact(self, update: Json) -> None:
        metadata, artifact = update.get("metadata") or {}, update.get("artifact") or {}
        if self._appended_chunk(update, artifact):
            return
        if CHILD in metadata or RETRACTED in metadata:
            return
        name, label = artifact.get("artifactId", ""), artifact.get("name", "")
        if not update.get("append"):
            self._forget(name)
        for part in artifact.get("parts", ()):
            self._take_part(part, name, label)

    def _appended_chunk(self, update: Json, artifact: Json) -> bool:
        """Append a chunk to the last text; most events of a log are such chunks."""
        turn = self.turns[-1] if self.turns else None
        last = turn.items[-1] if turn is not None and turn.items and not turn.is_complete else None
        content: list[Json] = artifact.get("parts") or []
        if not update.get("append") or type(last) is not TextItem or len(content) != 1:
            return False
        part = content[0]
        # An id of this log's own blocks can't be a child's.
        if last.id != artifact.get("artifactId") or not isinstance(part.get("text"), str):
            return False
        if (part.get("metadata") or {}).get(parts.EVENT_TYPE) != parts.CONTENT_BLOCK:
            return False
        last.text += part["text"]
        return True

    def _take_part(self, part: Json, name: str, label: str = "") -> None:
        if (result := parts.tool_result(part)) is not None:
            turn = Turn("tool", f"{result.id}-result", self._task, self._run, result=result)
            self.turns.append(turn)
        elif (call := parts.tool_call(part)) is not None:
            self._add(CallItem(*call, encrypted=parts.encrypted_value(part)))
        elif parts.is_partial_tool_call(part):
            self._take_arguments(part)
        elif parts.is_thinking(part):
            self._add_reasoning(part, parts.block_id(part) or name)
        elif text := parts.text_of([part]):
            self._add_text(text, name)
        elif _is_result(part):
            self._add(ResultItem(part, name, label))

    def _take_arguments(self, part: Json) -> None:
        call = parts.tool_call_id(part)
        self._arguments.setdefault(call, []).append(part.get("text", ""))
        if parts.is_block_end(part):
            text = "".join(self._arguments.pop(call))
            encrypted = parts.encrypted_value(part)
            self._add(CallItem.of_text(call, parts.tool_name(part), text, encrypted))

    def _add_reasoning(self, part: Json, name: str) -> None:
        turn = self._turn(name)
        last = turn.items[-1] if turn.items else None
        if not isinstance(last, ReasoningItem) or last.id != name:
            last = ReasoningItem("", name)
            turn.items.append(last)
        last.text += part.get("text", "")
        last.encrypted = parts.encrypted_value(part) or last.encrypted

    def _add_text(self, text: str, name: str) -> None:
        turn = self._turn(name)
        last = turn.items[-1] if turn.items else None
        if not isinstance(last, TextItem) or last.id != name:
            last = TextItem("", name)
            turn.items.append(last)
        last.text += text

    def _add(self, item: Item) -> None:
        self._turn(item.id).items.append(item)

    def _turn(self, name: str) -> Turn:
        """Return the agent's open turn, or a new one whose first item is `name`."""
        if not self.turns or self.turns[-1].role != "assistant" or self.turns[-1].is_complete:
            self.turns.append(Turn("assistant", name, self._task, self._run))
        return self.turns[-1]

    def _forget(self, artifact: str) -> None:
        """Remove the artifact's output so far: the artifact starts again."""
        for turn in reversed(self.turns):
            if turn.role == "user":
                return
            kept = [
                i for i in turn.items if isinstance(i, CallItem | ReasoningItem) or i.id != artifact
            ]
            turn.items[:] = kept
        self.turns = [turn for turn in self.turns if turn.role != "assistant" or turn.items]


class _AgUi:
    """Reader of an AG-UI client's messages."""

    def __init__(self, known: Sequence[Turn]) -> None:
        self._known: Mapping[str, tuple[Turn, Item]] = {
            item.id: (turn, item)
            for turn in known
            if turn.role == "assistant"
            for item in turn.items
        }
        self._results = {turn.result.id: turn.origin for turn in known if turn.result is not None}

    def turns(self, messages: Iterable[Json], content: Sequence[Json]) -> Iterator[Turn]:
        responses: list[Turn] = []
        for message in messages:
            if (turn := self._turn(message, content)) is None:
                continue
            if turn.role == "assistant":
                responses.append(turn)
                continue
            yield from self._responses(responses)
            responses = []
            yield turn
        yield from self._responses(responses)

    def _turn(  # noqa: PLR0911  # one for each role
        self, message: Json, sent: Sequence[Json]
    ) -> Turn | None:
        content, name = message.get("content"), message.get("id", "")
        match message.get("role"):
            case "system" | "developer":
                return Turn("system", name, parts=to_parts(content or ""))
            case "user":
                return Turn("user", name, parts=sent if content is None else to_parts(content))
            case "tool":
                error = message.get("error") or ""
                result = ToolResultPart(message["toolCallId"], content, error, bool(error))
                return Turn("tool", name, result=result, origin=self._results.get(result.id, ""))
            case "reasoning":
                encrypted = message.get("encryptedValue") or ""
                item = ReasoningItem(content or "", name, encrypted, self._origin_of(name))
                return Turn("assistant", name, items=[item])
            case "assistant":
                items: list[Item] = (
                    [TextItem(content, name, self._origin_of(name))] if content else []
                )
                for call in map(_agui_call, message.get("toolCalls") or ()):
                    call.origin = self._origin_of(call.id)
                    items.append(call)
                return Turn("assistant", name, items=items)
            case "activity" if name in self._known:
                return Turn("assistant", name, items=[self._known[name][1]])
        return None

    def _responses(self, turns: list[Turn]) -> Iterator[Turn]:
        """Yield the agent's responses: messages that belong to one response become one turn."""
        merged: list[Turn] = []
        for turn in turns:
            if merged and self._belongs(merged[-1], turn):
                merged[-1].items += turn.items
            else:
                merged.append(turn)
        for turn in merged:
            origin = self._origin(turn)
            if origin is not None and _is_unchanged(origin, turn):
                yield origin
            elif turn.items:
                yield turn

    def _belongs(self, before: Turn, turn: Turn) -> bool:
        origin = self._origin(turn)
        if origin is not None or self._origin(before) is not None:
            return origin is self._origin(before)
        return all(isinstance(item, ReasoningItem) for item in before.items)

    def _origin_of(self, name: str) -> str:
        _, item = self._known.get(name, (None, None))
        return "" if item is None or isinstance(item, ResultItem) else item.origin

    def _origin(self, turn: Turn) -> Turn | None:
        found = (self._known[item.id][0] for item in turn.items if item.id in self._known)
        return next(found, None)


def _verbatim(kept: Json) -> Verbatim | None:
    form = kept.get("format")
    return Verbatim(form, kept.get("response"), kept.get("link", "")) if form else None


def _name(items: Sequence[TextItem | ReasoningItem], names: Sequence[str]) -> None:
    """Set the origins of blocks; a block may have several pieces."""
    nameless = dict.fromkeys(item.id for item in items if not item.origin)
    found = dict(zip(nameless, names, strict=False))
    for item in items:
        item.origin = item.origin or found.get(item.id, "")


def _is_unchanged(origin: Turn, turn: Turn) -> bool:
    """Return whether a client's messages contain the response `origin` unchanged."""
    called = [(call.id, call.name, call.arguments) for call in origin.calls]
    return origin.text == turn.text and called == [
        (call.id, call.name, call.arguments) for call in turn.calls
    ]


def _kept(log: Iterable[Entry]) -> list[tuple[int, Json, str | None]]:
    """Return the events that no attempt has discarded, each with the checkpoint stored with it."""
    kept: list[tuple[int, Json, str | None]] = []
    for entry in log:
        for generation, event in enumerate(entry.parsed(), entry.generation):
            metadata = (event.get("statusUpdate") or {}).get("metadata") or {}
            if isinstance(after := metadata.get(DISCARDED_AFTER), int) and CHILD not in metadata:
                kept = [each for each in kept if each[0] <= after or _is_queued(each[1])]
            is_last = generation == entry.last_generation
            kept.append((generation, event, entry.stamp.checkpoint if is_last else None))
    return kept


def _snapshot(log: Sequence[Entry]) -> tuple[list[Json], int]:
    """Return the last conversation snapshot of a log and its generation; 0 if the log has none."""
    messages, last = list[Json](), 0
    if any(_SNAPSHOT in line for entry in log for line in entry.lines):
        for generation, event, _ in _kept(log):
            update = event.get("statusUpdate") or {}
            if CHILD in (update.get("metadata") or {}):
                continue
            for part in ((update.get("status") or {}).get("message") or {}).get("parts", ()):
                if parts.event_type(part) == parts.MESSAGES_SNAPSHOT:
                    messages, last = part["data"], generation
    return messages, last


def _asks_for_approval(metadata: Json) -> bool:
    asked = metadata.get(INTERRUPTS) or ()
    return any(isinstance(each, dict) and each.get("toolCallId") for each in asked)


def _is_queued(event: Json) -> bool:
    return QUEUED in ((event.get("statusUpdate") or {}).get("metadata") or {})


def _is_result(part: Json) -> bool:
    """Return whether the part is a result, and not only for user interfaces."""
    kind = parts.event_type(part)
    return kind in {"", "message", parts.CONTENT_BLOCK} and "text" not in part


def _unanswered(call: str, turn: Turn) -> Turn:
    result = ToolResultPart(call, "", "there was no answer", is_error=True)
    return Turn("tool", f"{call}-result", turn.task, turn.run, result=result)


def _agui_call(call: Json) -> CallItem:
    function = call.get("function") or {}
    name, text = function.get("name", ""), function.get("arguments", "")
    return CallItem.of_text(call["id"], name, text, call.get("encryptedValue") or "")
