"""Encoding of an agent's output as A2A events; the mapping is the design's "Which event says what".

Ids: every attempt at a run generates the same ids, so a new attempt replaces what an earlier one
emitted. Ids differ between runs, so one conversation can contain the output of many runs.

Blocks: an unlabelled piece of text or reasoning continues the last block of its kind until the
agent emits output of another kind. The next piece then opens a new block, and the previous text
block ends. Reasoning ends as soon as the agent emits something else; text stays open for the tool
calls that belong to it. Labelled blocks may interleave; each stays open until the agent ends it or
the run ends.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

from headrace.model import events, parts
from headrace.model.delegation import ASKS_FOR
from headrace.model.entry import ANSWERED
from headrace.model.events import (
    INPUT_SCHEMA,
    INTERRUPTS,
    PENDING_TOOL_CALLS,
    Draft,
    Json,
    TextChunks,
)
from headrace.model.task import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    TERMINAL,
    WORKING,
)
from headrace.sdk.emit import (
    ENDINGS,
    UTTERANCES,
    Complete,
    Data,
    Ending,
    File,
    InputRequired,
    Message,
    Reject,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    Utterance,
)
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Artifact, Outcome, Said
from headrace.sdk.signals import (
    SIGNALS,
    Activity,
    ActivityDelta,
    Custom,
    Messages,
    Raw,
    Signal,
    State,
    StateDelta,
    Step,
    Subagent,
    Usage,
)
from headrace_worker.shared_state import SharedState


class RunIds:
    """Generator of ids such as ``block-8c1f29d0ab-0``: kind, digest of the run, number per kind."""

    def __init__(self, task: str, run: int, minted: Mapping[str, int] | None = None) -> None:
        """Generate ids for one run of `task`; `minted` counts existing ids by kind."""
        self._digest = blake2b(f"{task}/{run}".encode(), digest_size=5).hexdigest()
        self._minted = Counter[str](minted or {})

    @property
    def minted(self) -> dict[str, int]:
        """Number of ids generated so far, by kind."""
        return dict(self._minted)

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`."""
        number = self._minted[kind]
        self._minted[kind] += 1
        return f"{kind}-{self._digest}-{number}"


TEXT = "block"

THINKING = "think"

ARGUMENTS = "arguments"

TOOL = "tool"
"""Kinds of agent output. The first two are blocks with an index, and prefixes of their ids."""


@dataclass(slots=True)
class Block:
    """A block of a run's output."""

    id: str
    index: int = -1
    """Position among the run's blocks; -1 for a tool call's arguments, which have none."""
    type: str = "text"
    title: str = ""
    started: bool = False
    """Whether a piece of the block has been emitted."""
    chunks: TextChunks | None = None
    """For text: encodes every piece after the first."""


class Blocks:
    """The open blocks of one run."""

    def __init__(self, ids: RunIds, next_index: int = 0) -> None:
        """Start without open blocks; `next_index` is the index of the first block opened."""
        self._ids = ids
        self._flow = ""
        self.next_index = next_index
        self._unlabelled: dict[str, Block] = {}
        self._labelled: dict[tuple[str, str], Block] = {}
        self._ended: set[tuple[str, str]] = set()

    def place(self, kind: str, label: str) -> tuple[Block, Block | None]:
        """Return the block that a piece belongs to, and the block that ends before it, if any.

        Raises:
            MalformedOutput: the agent has already ended the block.
        """
        if label:
            return self._place_labelled(kind, label), None
        if (going_on := self.going_on(kind)) is not None:
            return going_on, None
        self._flow = kind
        former = self._unlabelled.get(kind)
        block = self._unlabelled[kind] = self._open(kind)
        return block, former

    def going_on(self, kind: str, label: str = "") -> Block | None:
        """Return the open block that a piece of `kind` would continue."""
        if label:
            return self._labelled.get((kind, label))
        return self._unlabelled.get(kind) if self._flow == kind else None

    def to_end(self, kind: str, label: str) -> Block | None:
        """Return the open block that an end without text refers to, or None.

        Raises:
            MalformedOutput: the block has already ended.
        """
        if (kind, label) in self._ended:
            raise MalformedOutput(f"the block {label!r} has ended")
        return self.going_on(kind, label)

    def interrupt(self, kind: str) -> None:
        """Record output of `kind`: the next unlabelled text or reasoning opens a new block."""
        self._flow = kind

    def end(self, kind: str, label: str) -> None:
        """Record that the block has ended."""
        if label:
            self._labelled.pop((kind, label), None)
            self._ended.add((kind, label))
        else:
            self._unlabelled.pop(kind, None)

    def close(self) -> list[tuple[str, Block]]:
        """Remove all open blocks and return them with their kinds; their labels can be used again.

        Raises:
            MalformedOutput: a tool call's arguments are incomplete.
        """
        labelled = [(kind, block) for (kind, _), block in self._labelled.items()]
        if any(kind == ARGUMENTS for kind, _ in labelled):
            raise MalformedOutput("a checkpoint inside a tool call's arguments")
        closed = [*self._unlabelled.items(), *labelled]
        self._unlabelled.clear()
        self._labelled.clear()
        self._flow = ""
        return closed

    def _place_labelled(self, kind: str, label: str) -> Block:
        if (kind, label) in self._ended:
            raise MalformedOutput(f"the block {label!r} has ended")
        block = self._labelled.get((kind, label))
        if block is None:
            block = self._labelled[kind, label] = self._open(kind)
        return block

    def _open(self, kind: str) -> Block:
        if kind == ARGUMENTS:
            return Block(self._ids.mint("message"))
        self.next_index += 1
        return Block(self._ids.mint(kind), self.next_index - 1)


_LABELS = {"provider": "provider", "model": "model"}

_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
}
"""AG-UI's names for the counts in `Usage`, by field."""


def part_of(said: Signal, ids: RunIds, state: SharedState) -> Json:  # noqa: PLR0911  # one for each
    """Return the A2A part for a signal, with missing ids generated by `ids`.

    State updates are applied to `state` first, which decides whether a snapshot or a delta is sent.
    """
    match said:
        case State() | StateDelta():
            return _state(state.take(said))
        case Messages():
            return parts.messages_part(list(said.messages))
        case Activity():
            return parts.activity_part(said.type, said.content, said.id or ids.mint("activity"))
        case ActivityDelta():
            return parts.activity_delta_part(list(said.patch), said.id)
        case Step():
            return parts.step_part(said.name, finished=said.finished)
        case Subagent():
            return _subagent(said)
        case Usage():
            return parts.usage_part(_usage(said))
        case Custom():
            return parts.custom_part(said.name, said.value)
        case Raw():
            return parts.raw_part(said.event, said.source)


def _state(told: State | StateDelta) -> Json:
    if isinstance(told, State):
        return parts.state_part(told.state)
    return parts.state_delta_part(list(told.patch))


def _subagent(said: Subagent) -> Json:
    if said.finished:
        outcome = "suspended" if said.suspended else "success"
        return parts.subagent_end_part(said.id, said.name, outcome)
    return parts.subagent_part(said.id, said.name)


def usage_of(told: Any) -> Usage:  # noqa: ANN401  # any JSON
    """Parse AG-UI's TokenUsage; missing or malformed fields are ignored."""
    held = told if isinstance(told, dict) else {}
    said: dict[str, Any] = {key: str(held.get(name) or "") for key, name in _LABELS.items()}
    for key, name in _COUNTS.items():
        if isinstance(count := held.get(name), int):
            said[key] = count
    return Usage(**said)


def _usage(said: Usage) -> Json:
    """Return `said` as AG-UI's TokenUsage."""
    told = {name: getattr(said, key) for key, name in {**_LABELS, **_COUNTS}.items()}
    return {name: value for name, value in told.items() if value}


_OWN = "headrace."

_PASSED_ON = frozenset({INPUT_SCHEMA, INTERRUPTS, PENDING_TOOL_CALLS})
"""Headrace metadata that keeps its meaning in another fleet's log."""

_KINDS = {"text", "raw", "url", "data"}

_ENDS = TERMINAL | {INPUT_REQUIRED}

_MESSAGE = "message"
"""Event type of answer text outside a block."""


class RelayedEvents:
    """Encoder of the output that one run relays from another agent."""

    def __init__(self, task: str, context: str, ids: RunIds, blocks: Blocks) -> None:
        """Encode for one run of `task` in `context`; new blocks get their indices from `blocks`."""
        self._task, self._context, self._ids, self._blocks = task, context, ids, blocks
        self._indices: dict[str, int] = {}

    def draft(self, said: Artifact | Said) -> Draft:
        """Return the event for `said`.

        Raises:
            MalformedOutput: a part is not an A2A Part, or the artifact has no id.
        """
        return self._artifact(said) if isinstance(said, Artifact) else self._said(said)

    def _artifact(self, said: Artifact) -> Draft:
        if not said.id:
            raise MalformedOutput("an artifact needs an id")
        shown = [self._answer(part, said.id) for part in checked(said.parts)]
        named = {"name": said.name, "description": said.description, "metadata": said.metadata}
        more = {**named, "extensions": list(said.extensions)}
        artifact = {"artifactId": said.id, **{k: v for k, v in more.items() if v}, "parts": shown}
        return events.artifact_update(
            self._task,
            self._context,
            artifact,
            append=said.append,
            last_chunk=said.last_chunk,
        )

    def _said(self, said: Said) -> Draft:
        content = [hinted(part, parts.TASK) for part in checked(said.parts)]
        name = said.id or self._ids.mint("message")
        message = {"messageId": name, "role": "ROLE_AGENT", "parts": content} if content else None
        metadata = foreign(said.metadata)
        return events.status_update(self._task, self._context, WORKING, message, metadata)

    def _answer(self, part: Json, artifact: str) -> Json:
        if not _is_bare_text(part):
            return part
        if artifact not in self._indices:
            self._indices[artifact] = self._blocks.next_index
            self._blocks.next_index += 1
        metadata = parts.text_part("", artifact, self._indices[artifact])["metadata"]
        return {**part, "metadata": {**metadata, **part.get("metadata", {})}}


def end_parts(said: Outcome) -> list[Json]:
    """Return the parts of a run's last message.

    Raises:
        MalformedOutput: a part is not an A2A Part, or the state does not end a run.
    """
    if said.state not in _ENDS:
        raise MalformedOutput(f"{said.state!r} is not a state that can end a run")
    kind = _MESSAGE if said.state in {COMPLETED, INPUT_REQUIRED} else parts.TASK
    kind = parts.ERROR if said.state in {FAILED, REJECTED} else kind
    return [hinted(part, kind) for part in checked(said.parts)]


def foreign(metadata: Json) -> Json:
    """Return `metadata` without the keys that describe an event of another log."""
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith(_OWN) or key in _PASSED_ON
    }


def hinted(part: Json, kind: str) -> Json:
    """Return the part; text without an event type gets the event type `kind`."""
    if not _is_bare_text(part):
        return part
    return {**part, "metadata": {parts.EVENT_TYPE: kind, **part.get("metadata", {})}}


def checked(content: Sequence[Any]) -> Sequence[Json]:
    """Return `content` if all its items are A2A Parts.

    Raises:
        MalformedOutput: an item is not an A2A Part.
    """
    for number, part in enumerate(content):
        if not isinstance(part, dict) or not _KINDS & part.keys():
            raise MalformedOutput(f"parts[{number}] needs text, raw, url or data")
        if not isinstance(part.get("text", ""), str):
            raise MalformedOutput(f"parts[{number}].text must be a string")
        if not isinstance(part.get("metadata", {}), dict):
            raise MalformedOutput(f"parts[{number}].metadata must be an object")
    return content


def _is_bare_text(part: Json) -> bool:
    return "text" in part and not part.get("filename") and not parts.event_type(part)


def check_texts(said: Utterance | Ending) -> None:
    """Check that string fields hold strings; other types are checked when encoded as JSON.

    Raises:
        MalformedOutput: a field is not a string, or agents may not emit this type.
    """
    if type(said) not in _TEXTS:
        raise MalformedOutput(f"{type(said).__name__} is not allowed as output of an agent")
    for name in _TEXTS[type(said)]:
        value = getattr(said, name)
        if not isinstance(value, str):
            kind = type(said).__name__
            raise MalformedOutput(f"{kind}.{name} must be a string, not {type(value).__name__}")


_TEXTS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.type is str)
    for kind in (*UTTERANCES, *SIGNALS, *ENDINGS)
}


@dataclass(frozen=True, slots=True)
class Fault:
    """The cause of a failed run; clients see only the id and the reason."""

    id: str
    reason: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class End:
    """A run's last event, and the state it leaves the task in."""

    draft: Draft
    state: str
    message: Json | None = None
    """Message of the draft."""
    metadata: Json = field(default_factory=dict)
    """Metadata of the draft."""
    fault: Fault | None = None
    """The failure, unless the message contains all of it."""


class Endings:
    """Builder of a run's last event."""

    def __init__(self, task: str, context: str, ids: RunIds) -> None:
        """Build the last event for one run of `task` in `context`."""
        self._task, self._context, self._ids = task, context, ids

    def of(self, said: Ending) -> End:
        """Return the end that the agent emitted.

        Raises:
            MalformedOutput: a field has the wrong type.
            TypeError: a value can't be encoded as JSON.
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
        """Return a COMPLETED end."""
        return self._status(COMPLETED, {"text": text} if text else None)

    def completed_with(self, said: Message) -> End:
        """Return a COMPLETED end with a bare Message's content; the client already has a Task."""
        message = self._message(_content(said))
        return self._with(COMPLETED, message)

    def failed(self, reason: str) -> End:
        """Return a FAILED end; clients see `reason`."""
        return self._status(FAILED, parts.notice_part(reason, parts.ERROR))

    def canceled(self) -> End:
        """Return a CANCELED end."""
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
        MalformedOutput: the Message has no parts, or one is not an A2A Part.
    """
    content: list[Any] = [*([{"text": said.text}] if said.text else []), *said.parts]
    if not content or not all(isinstance(part, dict) and _KINDS & part.keys() for part in content):
        raise MalformedOutput("a Message needs parts with text, raw, url or data")
    return content


PIECE = 64 * 1024
"""Maximum characters of text in one event; longer text is split."""


def pieces(said: Text | Thinking) -> Iterator[tuple[str, bool]]:
    """Yield pieces of at most `PIECE` characters, each with whether it ends the block."""
    last = max(len(said.text) - 1, 0) // PIECE
    for number in range(last + 1):
        yield said.text[number * PIECE : (number + 1) * PIECE], said.end and number == last


def result_part(said: File | Data) -> Json:
    """Return the A2A part for a file or data.

    Raises:
        MalformedOutput: a file has neither content nor URL, or both.
    """
    if isinstance(said, Data):
        return parts.data_part(said.data, said.media_type)
    if (said.content is None) == (not said.url):
        raise MalformedOutput("a file needs either its content or its address")
    if said.content is None:
        return parts.link_part(said.url, said.name, said.media_type)
    return parts.file_part(said.content, said.name, said.media_type)


class Encoder:
    """Encoder of one run's output; its events have no generations yet."""

    def __init__(
        self,
        task: str,
        context: str,
        ids: RunIds,
        next_index: int = 0,
        state: SharedState | None = None,
    ) -> None:
        """Encode for one run of `task` in `context`; the first block's index is `next_index`."""
        self._state = state or SharedState()
        self._task, self._context, self._ids = task, context, ids
        self._blocks = Blocks(ids, next_index)
        self._relayed_events = RelayedEvents(task, context, ids, self._blocks)
        self._going_on: TextChunks | None = None
        self.artifacts: set[str] = set()
        """Ids of the artifacts emitted so far."""

    def chunk(self, text: str) -> Draft | None:
        """Return the event for a plain string that continues open text. Takes about 1 µs.

        Returns:
            None if the string opens a block, is empty or is longer than `PIECE`; use `drafts` then.
        """
        going_on = self._going_on
        if going_on is None or not text or len(text) > PIECE:
            return None
        return going_on.draft(text)

    def drafts(self, said: Utterance) -> list[Draft]:
        """Return the events for `said`.

        Raises:
            MalformedOutput: it continues a block that has ended, or a field has the wrong type.
            TypeError: a value can't be encoded as JSON.
        """
        check_texts(said)
        if isinstance(said, SIGNALS):
            part = part_of(said, self._ids, self._state)
            return [self._utterance(self._ids.mint("message"), part)]
        self._going_on = None
        match said:
            case Thinking():
                return list(self._thinking(said))
            case Text():
                return [*self._end_of_thought(said), *self._text(said)]
            case Artifact() | Said():
                return [*self._end_of_thought(said), self._quoted(said)]
            case _:
                return [*self._end_of_thought(said), self._one(said)]

    def stop(self) -> None:
        """Record that the run's end was emitted: no plain string can continue open text."""
        self._going_on = None

    def checkpoint(self, said: ToolArguments | ToolResult | None = None) -> list[Draft]:
        """Return the events for `said`, followed by events that end every open block.

        No block may span a checkpoint, because an attempt that resumes there replaces only whole
        artifacts.

        Raises:
            MalformedOutput: a tool call's arguments are incomplete, or as for `drafts`.
            TypeError: as for `drafts`.
        """
        last = [] if said is None else self.drafts(said)
        self._going_on = None
        closed = [(kind, block) for kind, block in self._blocks.close() if block.started]
        ends = [self._end(kind, block) for kind, block in closed]
        return [*last, *ends] or [events.status_update(self._task, self._context, WORKING)]

    @property
    def next_index(self) -> int:
        """Index of the next block."""
        return self._blocks.next_index

    def _end(self, kind: str, block: Block) -> Draft:
        if kind == TEXT:
            return self._text_piece(block, "", end=True)
        return self._thought(block, "", end=True)

    def _one(self, said: ToolCall | ToolArguments | ToolResult | File | Data | Status) -> Draft:
        match said:
            case ToolCall():
                return self._tool_call(said)
            case ToolArguments():
                return self._tool_arguments(said)
            case ToolResult():
                return self._tool_result(said)
            case File() | Data():
                return self._result(said)
            case Status():
                return self._utterance(self._ids.mint("message"), parts.notice_part(said.text))

    def _text(self, said: Text) -> Iterator[Draft]:
        block, former = self._block(TEXT, said)
        if former is not None and former.started:
            yield self._text_piece(former, "", end=True)
        if block is not None:
            if not block.started:
                block.type = said.type
            for text, end in pieces(said):
                yield self._text_piece(block, text, end=end)
            self._after_piece(TEXT, said, block)

    def _thinking(self, said: Thinking) -> Iterator[Draft]:
        block, _ = self._block(THINKING, said)
        if block is not None:
            block.title = block.title or said.title
            *before, (text, end) = pieces(said)
            for piece, _ in before:
                yield self._thought(block, piece, end=False)
            yield self._thought(block, text, end=end, encrypted=said.encrypted)
            self._after_piece(THINKING, said, block)

    def _end_of_thought(self, said: Utterance) -> Iterator[Draft]:
        """End the open reasoning, unless `said` may interleave with it."""
        goes_on = isinstance(said, File | Data | Status | Artifact) or (
            isinstance(said, Text) and (said.block or not said.text)
        )
        thought = None if goes_on else self._blocks.going_on(THINKING)
        if thought is not None:
            self._blocks.end(THINKING, "")
            yield self._thought(thought, "", end=True)

    def _block(self, kind: str, said: Text | Thinking) -> tuple[Block | None, Block | None]:
        if said.text or (isinstance(said, Thinking) and said.encrypted):
            return self._blocks.place(kind, said.block)
        # Empty output opens no block, but may end one.
        return (self._blocks.to_end(kind, said.block) if said.end else None), None

    def _after_piece(self, kind: str, said: Text | Thinking, block: Block) -> None:
        if said.end:
            self._blocks.end(kind, said.block)
        elif kind == TEXT and not said.block:
            self._going_on = self._chunks(block)

    def _text_piece(self, block: Block, text: str, *, end: bool) -> Draft:
        if block.started and not end:
            return self._chunks(block).draft(text)
        part = parts.text_part(text, block.id, block.index, block_type=block.type, end=end)
        draft = self._artifact(block.id, part, append=block.started, last_chunk=end)
        block.started = True
        return draft

    def _chunks(self, block: Block) -> TextChunks:
        if block.chunks is None:
            part = parts.text_part("", block.id, block.index, block_type=block.type)
            block.chunks = TextChunks(self._task, self._context, block.id, part["metadata"])
        return block.chunks

    def _thought(self, block: Block, text: str, *, end: bool, encrypted: str = "") -> Draft:
        block.started = True
        part = parts.thinking_part(
            text, block.id, block.index, title=block.title, encrypted=encrypted, end=end
        )
        return self._utterance(block.id, part)

    def _tool_call(self, said: ToolCall) -> Draft:
        self._blocks.interrupt(TOOL)
        call_id = said.id or self._ids.mint("call")
        if self._blocks.going_on(ARGUMENTS, call_id) is not None:
            # Its arguments have already been emitted in pieces.
            last = ToolArguments(call_id, "", said.name, end=True, encrypted=said.encrypted)
            return self._tool_arguments(last)
        part = parts.tool_call_part(said.name, said.arguments, call_id, encrypted=said.encrypted)
        return self._utterance(self._ids.mint("message"), part)

    def _tool_arguments(self, said: ToolArguments) -> Draft:
        if not said.id:
            raise MalformedOutput("a piece of a tool call needs the call's id")
        self._blocks.interrupt(TOOL)
        block, _ = self._blocks.place(ARGUMENTS, said.id)
        if said.end:
            self._blocks.end(ARGUMENTS, said.id)
        block.type = said.name or block.type
        part = parts.tool_arguments_part(
            said.delta, said.id, block.type, encrypted=said.encrypted, end=said.end
        )
        return self._utterance(block.id, part)

    def _tool_result(self, said: ToolResult) -> Draft:
        self._blocks.interrupt(TOOL)
        part = parts.tool_result_part(said.id, said.content, said.error)
        return self._utterance(self._ids.mint("message"), part)

    def _result(self, said: File | Data) -> Draft:
        artifact, part = said.id or self._ids.mint(type(said).__name__.lower()), result_part(said)
        return self._artifact(artifact, part, said.name, last_chunk=True)

    def _quoted(self, said: Artifact | Said) -> Draft:
        if isinstance(said, Artifact):
            self.artifacts.add(said.id)
        return self._relayed_events.draft(said)

    def _utterance(self, message: str, part: Json) -> Draft:
        return events.status_update(
            self._task,
            self._context,
            WORKING,
            {"messageId": message, "role": "ROLE_AGENT", "parts": [part]},
        )

    def _artifact(
        self,
        artifact: str,
        part: Json,
        name: str = "",
        *,
        append: bool = False,
        last_chunk: bool = False,
    ) -> Draft:
        self.artifacts.add(artifact)
        body = {"artifactId": artifact, "name": name} if name else {"artifactId": artifact}
        return events.artifact_update(
            self._task,
            self._context,
            {**body, "parts": [part]},
            append=append,
            last_chunk=last_chunk,
        )
