"""A conversation as a task's log has it."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from headrace.adapters.conversation.turns import (
    NAMES,
    RESPONSE,
    RESULT,
    CallItem,
    Item,
    MessageIds,
    ReasoningItem,
    ResultItem,
    TextItem,
    Turn,
    Verbatim,
    user_turn,
)
from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import (
    AGUI,
    DISCARDED_AFTER,
    INTERRUPTS,
    QUEUED,
    RETRACTED,
    TAKEN,
    Json,
    status_metadata,
    status_parts,
)
from headrace.model.parts import ToolResultPart
from headrace.model.task import AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, SUBMITTED
from headrace.sdk.checkpoint import decode
from headrace.sdk.shared_state import SharedState

_SNAPSHOT = f'"{parts.MESSAGES_SNAPSHOT}"'.encode()
"""Events whose JSON lacks this string contain no conversation snapshot."""


def turns_of_log(log: Iterable[Entry], task: str = "", last: int = sys.maxsize) -> list[Turn]:
    """Return the turns of one task from its log, up to generation `last`."""
    builder = _Log(task)
    for generation, event, checkpoint in _kept(log):
        if generation > last:
            break
        builder.add(generation, event)
        if checkpoint is not None and isinstance(data := decode(checkpoint).data, dict):
            builder.add_response(data.get(RESPONSE))
            builder.add_result(data.get(RESULT))
            builder.add_names(data.get(NAMES))
    return builder.turns


def state_of_logs(logs: Iterable[Iterable[Entry]]) -> Any:  # noqa: ANN401  # any JSON
    """Return the state that the agent shares with its user interface, after all `logs`."""
    shared = SharedState()
    for log in logs:
        for _, event, _ in _kept(log):
            metadata = (event.get("task") or {}).get("metadata") or status_metadata(event)
            if CHILD in metadata:
                continue
            if (state := (metadata.get(AGUI) or {}).get("state")) is not None:
                shared = SharedState(state)
            for part in status_parts(event):
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


def set_messages(logs: Sequence[Sequence[Entry]]) -> list[Json]:
    """Return the AG-UI messages of the last conversation that the agent itself has set, if any."""
    return next((messages for log in reversed(logs) if (messages := _snapshot(log)[0])), [])


class _Log:
    """Builder of a log's turns."""

    def __init__(self, task: str) -> None:
        self.turns: list[Turn] = []
        self._task, self._run = task, 0
        self._run_start, self._has_question = 0, False
        self._result: Turn | None = None
        self._arguments: dict[str, list[str]] = {}
        self._credentials = set[int]()

    def add(self, generation: int, event: Json) -> None:
        """Add an event; malformed events and events of delegated tasks are ignored."""
        if "task" in event:
            self._begin(generation, event["task"])
        elif "message" in event:
            self._add_message(event["message"])
        elif (update := event.get("statusUpdate")) is not None:
            self._add_status(generation, update)
        elif (update := event.get("artifactUpdate")) is not None:
            self._add_artifact(update)

    def add_response(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
        """Add a checkpoint's data on the response that ends with it."""
        if not isinstance(kept, dict):
            return
        turn = self._turn("")
        turn.is_complete = True
        turn.verbatim = _verbatim(kept)

    def add_result(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
        """Add a checkpoint's data on the tool result stored with it."""
        if isinstance(kept, dict) and self._result is not None:
            self._result.verbatim = _verbatim(kept)

    def add_names(self, kept: Any) -> None:  # noqa: ANN401  # any JSON
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
                self._add_message(message)

    def _add_status(self, generation: int, update: Json) -> None:
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
            self._arguments.clear()  # Ids recur: what a run left unfinished begins no later call.
        # Models must not see credential requests. An approval's prompt was not written by a model.
        is_shown = status.get("state") != AUTH_REQUIRED and not _asks_for_approval(metadata)
        if is_shown and metadata.get(TAKEN) not in self._credentials:
            self._add_message(status.get("message") or {})
        if status.get("state") == SUBMITTED:
            for turn in self.turns[self._run_start :]:
                turn.answers = self._has_question and turn.role == "user"
            self._has_question = False
        elif status.get("state") == INPUT_REQUIRED:
            self._has_question = bool(metadata.get(INTERRUPTS))
            self._mark_prompt((status.get("message") or {}).get("messageId"))
        elif status.get("state") == COMPLETED:
            self._mark_last()

    def _mark_prompt(self, name: str | None) -> None:
        for item in self.turns[-1].items if self.turns else ():
            if isinstance(item, TextItem) and item.id == name:
                item.asks = True

    def _mark_last(self) -> None:
        last = self.turns[-1] if len(self.turns) > self._run_start else None
        if last is not None and last.role == "assistant" and not last.is_complete:
            last.is_last = any(turn.is_complete for turn in self.turns[self._run_start :])

    def _add_message(self, message: Json) -> None:
        if message.get("role") == "ROLE_USER":
            self.turns += user_turn(message, self._task, self._run)
            return
        for part in message.get("parts", ()):
            self._add_part(part, message.get("messageId", ""))

    def _add_artifact(self, update: Json) -> None:
        metadata, artifact = update.get("metadata") or {}, update.get("artifact") or {}
        if self._appended_chunk(update, artifact):
            return
        if CHILD in metadata or RETRACTED in metadata:
            return
        name, label = artifact.get("artifactId", ""), artifact.get("name", "")
        if not update.get("append"):
            self._forget(name)
        for part in artifact.get("parts", ()):
            self._add_part(part, name, label)

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

    def _add_part(self, part: Json, name: str, label: str = "") -> None:
        if (result := parts.tool_result(part)) is not None:
            self._add_result(result)
        elif (call := parts.tool_call(part)) is not None:
            self._add(CallItem(*call, encrypted=parts.encrypted_value(part)))
        elif parts.is_partial_tool_call(part):
            self._add_arguments(part)
        elif parts.is_thinking(part):
            self._add_reasoning(part, parts.block_id(part) or name)
        elif text := parts.text_of([part]):
            self._add_text(text, name)
        elif _is_result(part):
            self._add(ResultItem(part, name, label))

    def _add_result(self, result: ToolResultPart) -> None:
        """Add a tool's result behind its call; what a tool emits itself follows the results."""
        turn = Turn("tool", f"{result.id}-result", self._task, self._run, result=result)
        is_beside = _is_beside(self.turns[self._run_start :], result.id)
        self.turns.insert(len(self.turns) - is_beside, turn)
        self._result = turn

    def _add_arguments(self, part: Json) -> None:
        call = parts.tool_call_id(part)
        self._arguments.setdefault(call, []).append(part.get("text", ""))
        if parts.is_block_end(part):
            text = "".join(self._arguments.pop(call))
            encrypted = parts.encrypted_value(part)
            self._add(CallItem.of_text(call, parts.tool_name(part), text, encrypted))

    def _add_reasoning(self, part: Json, name: str) -> None:
        last = self._continued(ReasoningItem, name)
        last.text += part.get("text", "")
        last.encrypted = parts.encrypted_value(part) or last.encrypted

    def _add_text(self, text: str, name: str) -> None:
        self._continued(TextItem, name).text += text

    def _continued[Kind: (TextItem, ReasoningItem)](self, kind: type[Kind], name: str) -> Kind:
        """Return the last item, if it is the one of that name, or a new one."""
        items = self._turn(name).items
        last = items[-1] if items else None
        if not isinstance(last, kind) or last.id != name:
            last = kind("", name)
            items.append(last)
        return last

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


def _is_beside(run: Sequence[Turn], call: str) -> bool:
    """Return whether the last turn was emitted while a call of the response before was executed."""
    match [turn for turn in reversed(run) if turn.role == "assistant"]:
        case [last, asking, *_] if last is run[-1]:
            asked, beside = ({each.id for each in turn.calls} for turn in (asking, last))
            return call in asked and call not in beside
    return False


def _verbatim(kept: Json) -> Verbatim | None:
    form = kept.get("format")
    return Verbatim(form, kept.get("response"), kept.get("link", "")) if form else None


def _name(items: Sequence[TextItem | ReasoningItem], names: Sequence[str]) -> None:
    """Set the origins of blocks; a block may have several pieces."""
    nameless = dict.fromkeys(item.id for item in items if not item.origin)
    found = dict(zip(nameless, names, strict=False))
    for item in items:
        item.origin = item.origin or found.get(item.id, "")


def _kept(log: Iterable[Entry]) -> list[tuple[int, Json, str | None]]:
    """Return the events that no attempt has discarded, each with the checkpoint stored with it."""
    kept: list[tuple[int, Json, str | None]] = []
    for entry in log:
        for generation, event in enumerate(entry.parsed(), entry.generation):
            metadata = status_metadata(event)
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
            if CHILD in status_metadata(event):
                continue
            for part in status_parts(event):
                if parts.event_type(part) == parts.MESSAGES_SNAPSHOT:
                    messages, last = part["data"], generation
    return messages, last


def _asks_for_approval(metadata: Json) -> bool:
    interrupts = metadata.get(INTERRUPTS) or ()
    return any(isinstance(each, dict) and each.get("toolCallId") for each in interrupts)


def _is_queued(event: Json) -> bool:
    return QUEUED in status_metadata(event)


def _is_result(part: Json) -> bool:
    """Return whether the part is a result, and not only for user interfaces."""
    kind = parts.event_type(part)
    return kind in {"", "message", parts.CONTENT_BLOCK} and "text" not in part
