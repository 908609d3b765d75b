"""Encoding of an agent's output, and of a run's end, as A2A events.

``docs/design/bus-contract.md`` lists which event each output becomes.

Ids: every attempt at a run generates the same ids, so a new attempt replaces what an earlier one
emitted. Ids differ between runs, so one conversation can contain the output of many runs.

Blocks: an unlabelled piece of text or reasoning continues the last block of its kind until the
agent emits output of another kind. The next piece then opens a new block, and the previous text
block ends. Reasoning ends as soon as the agent emits something else; text stays open for the tool
calls that belong to it. Labelled blocks may interleave; each stays open until the agent ends it or
the run ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, override

from headrace.model import events, json_text, parts
from headrace.model.delegation import ASKS_FOR
from headrace.model.events import (
    INTERRUPTS,
    PENDING_TOOL_CALLS,
    REFUSED,
    Draft,
    Json,
    TextChunks,
    fits_line,
)
from headrace.model.relayed import foreign
from headrace.model.task import (
    BARE_MESSAGE,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    WORKING,
)
from headrace.sdk.emit import (
    Artifact,
    Complete,
    Data,
    Ending,
    File,
    InputRequired,
    Message,
    Outcome,
    Output,
    Reject,
    RelayedMessage,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    check_texts,
)
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.shared_state import SharedState, check_activity, drawn
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
    Surfaces,
    Usage,
)
from headrace.sdk.token_usage import usage_json
from headrace.span_content import BoundedText, texts_of
from headrace_worker.blocks import ARGUMENTS, TEXT, THINKING, TOOL, Block, Blocks, RunIds
from headrace_worker.observed_tool_calls import ObservedToolCalls
from headrace_worker.relayed_events import RelayedEvents, checked, end_parts

PIECE = 64 * 1024
"""Maximum characters of text, or of a call's arguments, in one event; longer ones are split."""


TOKEN = 128
"""Maximum characters of text that is encoded when it is sent, not before."""


def pieces(text: str, *, end: bool) -> Iterator[tuple[str, bool]]:
    """Yield pieces of at most `PIECE` characters, each with whether it ends the block."""
    last = max(len(text) - 1, 0) // PIECE
    for number in range(last + 1):
        yield text[number * PIECE : (number + 1) * PIECE], end and number == last


def result_part(output: File | Data) -> Json:
    """Return the A2A part for a file or data.

    Raises:
        MalformedOutput: a file has neither content nor URL, or both.
    """
    if isinstance(output, Data):
        return parts.data_part(output.data, output.media_type)
    if (output.content is None) == (not output.url):
        raise MalformedOutput("a file needs either content or a URL")
    if output.content is None:
        return parts.link_part(output.url, output.name, output.media_type)
    return parts.file_part(output.content, output.name, output.media_type)


class Encoder:
    """Encoder of one run's output; its events have no generations yet."""

    def __init__(
        self,
        task: str,
        context: str,
        ids: RunIds,
        next_index: int = 0,
        state: SharedState | None = None,
        *,
        tool_calls: ObservedToolCalls | None = None,
    ) -> None:
        """Encode for one run of `task` in `context`; the first block's index is `next_index`.

        Calls and results are reported to `tool_calls`, here and not for every output, so that
        pieces of text cost nothing.
        """
        self._tool_calls = tool_calls
        self._state = state
        self.task, self._context, self.ids = task, context, ids
        self._blocks = Blocks(ids, next_index)
        self._relayed_events: RelayedEvents | None = None
        self._open_text: TextChunks | None = None
        self.artifacts: dict[str, None] = {}
        """Ids of the artifacts emitted so far. An empty set would take 150 bytes more."""

    @property
    def state(self) -> SharedState:
        """The state that the run shares with its user interface; empty until it is first used."""
        if self._state is None:
            self._state = SharedState()
        return self._state

    def continued(self, text: str) -> TextChunks | None:
        """Return what encodes a plain string that continues open text. None: as for `chunk`.

        It is also None for a string that has to be looked at more closely: `chunk` does.
        """
        if self._open_text is None or not text or len(text) > TOKEN or not fits_line(text):
            return None
        return self._open_text

    def chunk(self, text: str) -> Draft | None:
        """Return the event for a plain string that continues open text. Takes about 1 µs.

        Returns:
            None if the string opens a block, is empty, is longer than `PIECE` or has half of a
            character; use `drafts` then.
        """
        continued = self._open_text
        if continued is None or not text or len(text) > PIECE:
            return None
        try:
            return continued.draft(text)
        except TypeError:
            return None

    def drafts(self, output: Output) -> list[Draft]:
        """Return the events for `output`.

        Raises:
            MalformedOutput: it continues a block that has ended, or a field has the wrong type.
            TypeError: a value can't be encoded as JSON.
        """
        check_texts(output)
        if isinstance(output, SIGNALS):
            part = part_of(output, self.ids, self.state)
            return [self._message_event(self.ids.mint("message"), part)]
        self._open_text = None
        match output:
            case Thinking():
                return list(self._reasoning(output))
            case Text():
                return [*self._end_of_reasoning(output), *self._text(output)]
            case Artifact() | RelayedMessage():
                return [*self._end_of_reasoning(output), self._relayed(output)]
            case _:
                return [*self._end_of_reasoning(output), *self._other(output)]

    def stop(self) -> None:
        """Record that the run's end was emitted: no plain string can continue open text."""
        self._open_text = None

    def last_halves(self) -> list[Draft]:
        """Return the events for halves of characters whose other halves will not come."""
        return [self._rest(kind, block) for kind, block in self._blocks.halved()]

    def checkpoint(self, output: ToolArguments | ToolResult | None = None) -> list[Draft]:
        """Return the events for `output`, followed by events that end every open block.

        No block may span a checkpoint, because an attempt that resumes there replaces only whole
        artifacts.

        Raises:
            MalformedOutput: a tool call's arguments are incomplete, or as for `drafts`.
            TypeError: as for `drafts`.
        """
        last = [] if output is None else self.drafts(output)
        self._open_text = None
        closed = [(kind, block) for kind, block in self._blocks.close() if block.is_shown]
        ends = [self._end(kind, block) for kind, block in closed]
        return [*last, *ends] or [events.status_update(self.task, self._context, WORKING)]

    @property
    def next_index(self) -> int:
        """Index of the next block."""
        return self._blocks.next_index

    def _end(self, kind: str, block: Block) -> Draft:
        text = block.joined("", end=True)
        if kind == TEXT:
            return self._text_piece(block, text, end=True)
        return self._reasoning_event(block, text, end=True)

    def _rest(self, kind: str, block: Block) -> Draft:
        text = block.joined("", end=True)
        if kind == TEXT:
            return self._text_piece(block, text, end=False)
        if kind == THINKING:
            return self._reasoning_event(block, text, end=False)
        part = parts.tool_arguments_part(text, block.label, block.type)
        return self._message_event(block.id, part)

    def _other(
        self, output: ToolCall | ToolArguments | ToolResult | File | Data | Status
    ) -> Iterator[Draft]:
        match output:
            case ToolCall():
                yield from self._tool_call(output)
            case ToolArguments():
                yield from self._tool_arguments(output)
            case ToolResult():
                yield self._tool_result(output)
            case File() | Data():
                yield self._result(output)
            case Status():
                yield self._message_event(self.ids.mint("message"), parts.notice_part(output.text))

    def _text(self, output: Text) -> Iterator[Draft]:
        block, former = self._block(TEXT, output)
        if former is not None and former.is_shown:
            yield self._end(TEXT, former)
        if block is not None:
            if not block.started:
                block.type = output.type
            whole = block.joined(output.text, end=output.end)
            for text, end in pieces(whole, end=output.end) if whole or output.end else ():
                yield self._text_piece(block, text, end=end)
            self._after_piece(TEXT, output, block)

    def _reasoning(self, output: Thinking) -> Iterator[Draft]:
        block, _ = self._block(THINKING, output)
        if block is not None:
            block.title = block.title or output.title
            whole = block.joined(output.text, end=output.end)
            *before, (text, end) = pieces(whole, end=output.end)
            for piece, _ in before:
                yield self._reasoning_event(block, piece, end=False)
            if text or end or output.encrypted:
                yield self._reasoning_event(block, text, end=end, encrypted=output.encrypted)
            self._after_piece(THINKING, output, block)

    def _end_of_reasoning(self, output: Output) -> Iterator[Draft]:
        """End the open reasoning, unless `output` may interleave with it."""
        interleaves = isinstance(output, File | Data | Status | Artifact) or (
            isinstance(output, Text) and (output.block or not output.text)
        )
        reasoning = None if interleaves else self._blocks.continued(THINKING)
        if reasoning is not None:
            self._blocks.end(THINKING, "")
            yield self._end(THINKING, reasoning)

    def _block(self, kind: str, output: Text | Thinking) -> tuple[Block | None, Block | None]:
        if output.text or (isinstance(output, Thinking) and output.encrypted):
            return self._blocks.place(kind, output.block)
        # Empty output opens no block, but may end one.
        return (self._blocks.to_end(kind, output.block) if output.end else None), None

    def _after_piece(self, kind: str, output: Text | Thinking, block: Block) -> None:
        if output.end:
            self._blocks.end(kind, output.block)
        elif kind == TEXT and not output.block and block.started and not block.half:
            self._open_text = self._chunks(block)

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
            block.chunks = TextChunks(self.task, self._context, block.id, part["metadata"])
        return block.chunks

    def _reasoning_event(self, block: Block, text: str, *, end: bool, encrypted: str = "") -> Draft:
        block.started = True
        part = parts.thinking_part(
            text, block.id, block.index, title=block.title, encrypted=encrypted, end=end
        )
        return self._message_event(block.id, part)

    def _tool_call(self, output: ToolCall) -> Iterator[Draft]:
        self._blocks.interrupt(TOOL)
        call_id = output.id or self.ids.mint("call")
        if self._blocks.continued(ARGUMENTS, call_id) is not None:
            # Its arguments have already been emitted in pieces.
            last = ToolArguments(call_id, "", output.name, end=True, encrypted=output.encrypted)
            yield from self._tool_arguments(last)
            return
        if self._tool_calls is not None:
            self._tool_calls.begin(call_id, output.name, output.arguments)
        part = parts.tool_call_part(
            output.name, output.arguments, call_id, encrypted=output.encrypted
        )
        whole = self._message_event(self.ids.mint("message"), part)
        if whole.size <= PIECE:
            yield whole
            return
        text = json_text.text(output.arguments)
        long = ToolArguments(call_id, text, end=True, encrypted=output.encrypted)
        block = Block(self.ids.mint("arguments"), type=output.name, label=call_id)
        yield from self._argument_pieces(block, long)

    def _tool_arguments(self, output: ToolArguments) -> Iterator[Draft]:
        if not output.id:
            raise MalformedOutput("a piece of a tool call must have the call's id")
        self._blocks.interrupt(TOOL)
        block, _ = self._blocks.place(ARGUMENTS, output.id)
        if output.end:
            self._blocks.end(ARGUMENTS, output.id)
        block.type = output.name or block.type
        if output.end and self._tool_calls is not None:
            self._tool_calls.begin(output.id, block.type)
        block.label = output.id
        yield from self._argument_pieces(block, output)

    def _argument_pieces(self, block: Block, output: ToolArguments) -> Iterator[Draft]:
        whole = block.joined(output.delta, end=output.end)
        *before, (delta, end) = pieces(whole, end=output.end)
        for piece, _ in before:
            part = parts.tool_arguments_part(piece, output.id, block.type)
            yield self._message_event(block.id, part)
        part = parts.tool_arguments_part(
            delta, output.id, block.type, encrypted=output.encrypted, end=end
        )
        yield self._message_event(block.id, part)

    def _tool_result(self, output: ToolResult) -> Draft:
        self._blocks.interrupt(TOOL)
        if self._tool_calls is not None:
            self._tool_calls.end(
                output.id, output.error or output.content, has_failed=bool(output.error)
            )
        part = parts.tool_result_part(output.id, output.content, output.error)
        return self._message_event(self.ids.mint("message"), part)

    def _result(self, output: File | Data) -> Draft:
        artifact = output.id or self.ids.mint(type(output).__name__.lower())
        part = result_part(output)
        return self._artifact(artifact, part, output.name, last_chunk=True)

    def _relayed(self, output: Artifact | RelayedMessage) -> Draft:
        if isinstance(output, Artifact):
            self.artifacts[output.id] = None
        if self._relayed_events is None:
            self._relayed_events = RelayedEvents(self.task, self._context, self.ids, self._blocks)
        return self._relayed_events.draft(output)

    def _message_event(self, message: str, part: Json) -> Draft:
        return events.status_update(
            self.task,
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
        self.artifacts[artifact] = None
        body = {"artifactId": artifact, "name": name} if name else {"artifactId": artifact}
        return events.artifact_update(
            self.task,
            self._context,
            {**body, "parts": [part]},
            append=append,
            last_chunk=last_chunk,
        )


def part_of(output: Signal, ids: RunIds, state: SharedState) -> Json:  # noqa: C901, PLR0911  # one for each
    """Return the A2A part for a signal, with missing ids generated by `ids`.

    State updates are applied to `state` first, which decides whether a snapshot or a delta is sent.
    """
    match output:
        case State() | StateDelta():
            return _state(state.apply(output))
        case Messages():
            return parts.messages_part(list(output.messages))
        case Activity():
            check_activity(output)
            return parts.activity_part(
                output.type, output.content, output.id or ids.mint("activity")
            )
        case ActivityDelta():
            return parts.activity_delta_part(list(output.patch), output.id)
        case Surfaces():
            return parts.surfaces_part(drawn(output))
        case Step():
            return parts.step_part(output.name, finished=output.finished)
        case Subagent():
            return _subagent(output)
        case Usage():
            return parts.usage_part(usage_json(output))
        case Custom():
            return parts.custom_part(output.name, output.value)
        case Raw():
            return parts.raw_part(output.event, output.source)


def _state(update: State | StateDelta) -> Json:
    if isinstance(update, State):
        return parts.state_part(update.state)
    return parts.state_delta_part(list(update.patch))


def _subagent(output: Subagent) -> Json:
    if output.finished:
        outcome = "suspended" if output.suspended else "success"
        return parts.subagent_end_part(output.id, output.name, outcome)
    return parts.subagent_part(output.id, output.name)


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

    def of(self, output: Ending) -> End:
        """Return the end that the agent emitted.

        Raises:
            MalformedOutput: a field has the wrong type.
            TypeError: a value can't be encoded as JSON.
        """
        check_texts(output)
        match output:
            case Complete():
                return self.completed(output.text)
            case InputRequired():
                return self._question(output)
            case Reject():
                return self._status(REJECTED, parts.notice_part(output.reason, parts.ERROR))
            case Message():
                return self._answer(output)
            case Outcome():
                return self._outcome(output)

    def asking_before(self, question: End, waiting: list[int]) -> Draft:
        """Return the event of a `question`; the messages of those generations wait behind it."""
        message = question.message or self._message([{"text": ""}])
        metadata = {**(message.get("metadata") or {}), events.WAITING: waiting}
        asked = {**message, "metadata": metadata}
        task = self._task, self._context
        return events.status_update(*task, question.state, asked, question.metadata)

    def completed(self, text: str = "") -> End:
        """Return a COMPLETED end."""
        return self._status(COMPLETED, {"text": text} if text else None)

    def completed_with(self, output: Message) -> End:
        """Return a COMPLETED end with a bare Message's content; the client already has a Task."""
        message = self._message(_content(output))
        return self._with(COMPLETED, message)

    def failed(self, reason: str) -> End:
        """Return a FAILED end; clients see `reason`."""
        return self._status(FAILED, parts.notice_part(reason, parts.ERROR))

    def canceled(self) -> End:
        """Return a CANCELED end."""
        return self._status(CANCELED)

    def _question(self, output: InputRequired) -> End:
        message = None
        text = "\n".join(filter(None, [output.refused, output.prompt]))
        if text or output.schema is not None:
            message = self._message([{"text": text}])
        about: Json = {}
        if output.schema is not None:
            about[events.INPUT_SCHEMA] = output.schema
        if output.interrupts:
            about[events.NEEDS_ANSWER] = True
        if message is not None and about:
            message["metadata"] = about
        prompt: Json = {
            INTERRUPTS: list(output.interrupts),
            PENDING_TOOL_CALLS: list(output.tool_calls),
        }
        prompt |= {ASKS_FOR: output.asks_for, REFUSED: output.refused}
        metadata = {key: value for key, value in prompt.items() if value}
        draft = events.status_update(self._task, self._context, INPUT_REQUIRED, message, metadata)
        return End(draft, INPUT_REQUIRED, message, metadata)

    def _outcome(self, output: Outcome) -> End:
        content, message = end_parts(output), None
        if content:
            message = self._message(content)
            message["messageId"] = output.message_id or message["messageId"]
            if output.message_metadata:
                message["metadata"] = foreign(output.message_metadata)
        metadata = foreign(output.metadata)
        draft = events.status_update(self._task, self._context, output.state, message, metadata)
        return End(draft, output.state, message, metadata)

    def _status(self, state: str, part: Json | None = None) -> End:
        message = None if part is None else self._message([part])
        return self._with(state, message)

    def _with(self, state: str, message: Json | None) -> End:
        draft = events.status_update(self._task, self._context, state, message)
        return End(draft, state, message)

    def _answer(self, output: Message) -> End:
        message = self._message(_content(output))
        return End(events.bare_message(self._context, message), BARE_MESSAGE, message)

    def _message(self, content: list[Json]) -> Json:
        return {"messageId": self._ids.mint("message"), "role": "ROLE_AGENT", "parts": content}


def _content(output: Message) -> list[Json]:
    """Return the Message's parts.

    Raises:
        MalformedOutput: the Message has no parts, or one is not an A2A Part.
    """
    content: list[Any] = [*([{"text": output.text}] if output.text else []), *output.parts]
    if not content:
        raise MalformedOutput("a Message must have a text or parts")
    return [*checked(content)]


class RecordingEncoder(Encoder):
    """An encoder that adds the texts it encodes to `texts`, which must be set.

    For an attempt whose span has content; one without calls nothing for it.
    """

    texts: BoundedText

    @override
    def continued(self, text: str) -> TextChunks | None:
        chunks = super().continued(text)
        if chunks is not None:
            self.texts.add(text)
        return chunks

    @override
    def chunk(self, text: str) -> Draft | None:
        draft = super().chunk(text)
        if draft is not None:
            self.texts.add(text)
        return draft

    @override
    def drafts(self, output: Output) -> list[Draft]:
        if isinstance(output, ToolArguments) and self._tool_calls is not None:
            # Before the call's span begins, which the last piece does.
            self._tool_calls.add_arguments(output.id, output.delta)
        made = super().drafts(output)
        match output:
            case Text():
                self.texts.add(output.text)
            case Artifact() | RelayedMessage():
                for text in texts_of(output.parts):
                    self.texts.add(text)
        return made


class RecordingEndings(Endings):
    """A builder of last events that adds their texts to `texts`, which must be set."""

    texts: BoundedText

    @override
    def of(self, output: Ending) -> End:
        end = super().of(output)
        for text in texts_of((end.message or {}).get("parts", ())):
            self.texts.add(text)
        return end
