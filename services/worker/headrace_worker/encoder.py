"""Encoding of an agent's output as A2A events; the mapping is the design's "Which event says what".

Ids: every attempt at a run generates the same ids, so a new attempt replaces what an earlier one
emitted. Ids differ between runs, so one conversation can contain the output of many runs.

Blocks: an unlabelled piece of text or reasoning continues the last block of its kind until the
agent emits output of another kind. The next piece then opens a new block, and the previous text
block ends. Reasoning ends as soon as the agent emits something else; text stays open for the tool
calls that belong to it. Labelled blocks may interleave; each stays open until the agent ends it or
the run ends.
"""

from collections.abc import Iterator

from headrace.model import events, parts
from headrace.model.events import Draft, Json, TextChunks
from headrace.model.task import WORKING
from headrace.sdk.emit import (
    Data,
    File,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    Utterance,
    check_texts,
)
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Artifact, Said
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
from headrace_worker.blocks import ARGUMENTS, TEXT, THINKING, TOOL, Block, Blocks, RunIds
from headrace_worker.relayed import RelayedEvents
from headrace_worker.shared_state import SharedState
from headrace_worker.usage import usage_json

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
            return parts.usage_part(usage_json(said))
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
