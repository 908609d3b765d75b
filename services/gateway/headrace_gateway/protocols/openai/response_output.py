"""The output of one run, as the items that OpenAI's API has; deterministic for a given log.

Sent output can't be retracted there. What a new attempt replaces is closed as incomplete and left
out of the final output.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from headrace.model import json_text, parts
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
)
from headrace.model.task import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    REJECTED,
    SUBMITTED,
    TERMINAL,
    WORKING,
)
from headrace.model.usage_counts import add_usage
from headrace_gateway.protocols.openai.ids import RunPlace

type Kind = Literal["message", "reasoning", "function_call", "mcp_call", "mcp_approval_request"]

_PREFIXES: dict[Kind, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
}


@dataclass(slots=True, eq=False)
class OutputItem:
    """One item of the output."""

    kind: Kind
    id: str
    index: int
    name: str = ""
    """The tool's, of a call."""
    call: str = ""
    """The call's id for clients."""
    pieces: list[tuple[int, str]] = field(default_factory=list)
    """Text, or a call's arguments, each piece with the generation of its event."""
    result: str | None = None
    result_at: int = 0
    """Generation of the result's event."""
    error: str | None = None
    is_open: bool = True
    is_left_out: bool = False
    """Whether a new attempt has replaced all of it."""

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(piece for _, piece in self.pieces)


class ItemStep(Enum):
    """What happens to an item."""

    OPENED = 1
    GREW = 2
    CLOSED = 3
    CUT = 4
    """It ends incomplete."""


class ItemChange(NamedTuple):
    """One change of the output."""

    step: ItemStep
    item: OutputItem
    delta: str = ""


class ResponseOutput:
    """Reads the entries of a log, from the run's input on."""

    def __init__(self, place: RunPlace) -> None:
        """Start before the input of the run at `place`."""
        self.place = place
        self.items: list[OutputItem] = []
        self.state = SUBMITTED
        """The task's state, in the run."""
        self.over = False
        self.error = ""
        """Why the run failed."""
        self.sent: Json = {}
        """What the client sent: the input's metadata of AG-UI."""
        self.content: list[Json] = []
        """The input's parts."""
        self.context = ""
        self.begun = ""
        """When the input was stored, RFC 3339; empty before."""
        self.has_just_begun = False
        """Whether the input is in the entry that was read last."""
        self.ended = ""
        self.usage: list[Json] = []
        """AG-UI's TokenUsage of each model."""
        self._open: dict[tuple[Kind, str], OutputItem] = {}
        self._calls: dict[str, OutputItem] = {}
        self._artifacts: dict[str, list[OutputItem]] = {}
        self._functions: frozenset[str] = frozenset()
        self._changes: list[ItemChange] = []
        self._generation = 0

    def read(self, entry: Entry) -> list[ItemChange]:
        """Return what the next entry changes."""
        self.has_just_begun = False
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation < self.place.run or self.over:
                continue
            self._generation = generation
            if generation == self.place.run:
                self._begin(event, entry.time)
            elif entry.stamp.run != self.place.run:
                self._end(entry.time)  # The task has gone on with another input.
            else:
                self._read(event, entry.time)
        if entry.ends_run and self.begun and not self.over and entry.stamp.run == self.place.run:
            self.state, self.error = FAILED, "the run's last event can't be read"
            self._end(entry.time)
        changes, self._changes = self._changes, []
        return changes

    @property
    def kept(self) -> list[OutputItem]:
        """The items of the final output."""
        return [item for item in self.items if not item.is_left_out]

    def _begin(self, event: Json, time: str) -> None:
        body = event.get("task") or event["statusUpdate"]
        history = body.get("history") or [body["status"].get("message") or {}]
        sent = (body.get("metadata") or {}).get(AGUI)
        self.context, self.begun, self.has_just_begun = body["contextId"], time, True
        self.content = history[-1].get("parts") or []
        self.sent = sent if isinstance(sent, dict) else {}
        tools = self.sent.get("tools") or ()
        self._functions = frozenset(tool["name"] for tool in tools)

    def _read(self, event: Json, time: str) -> None:
        """Read an event; one of another shape, of a worker in any language, changes nothing."""
        try:
            if (update := event.get("artifactUpdate")) is not None:
                self._artifact(update)
            elif (update := event.get("statusUpdate")) is not None:
                self._status(update, time)
            elif (message := event.get("message")) is not None:
                self._message(message, is_final=True)
                self.state = COMPLETED
                self._end(time)
        except (KeyError, TypeError, ValueError, AttributeError):
            return

    def _artifact(self, update: Json) -> None:
        if (update.get("metadata") or {}).get(RETRACTED):
            return
        artifact = update["artifact"]
        name = artifact["artifactId"]
        if not update.get("append"):
            for item in self._artifacts.pop(name, ()):
                self._discard(item, after=0)
        made = self._artifacts.setdefault(name, [])
        for part in artifact.get("parts", ()):
            grown = self._part(part, name)
            if grown is not None and grown not in made:
                made.append(grown)
        if update.get("lastChunk"):
            for item in made:
                self._close(item)

    def _status(self, update: Json, time: str) -> None:
        metadata, status = update.get("metadata") or {}, update["status"]
        if CHILD in metadata or TAKEN in metadata or QUEUED in metadata:
            return
        self.state = status["state"]
        if (after := metadata.get(DISCARDED_AFTER)) is not None:
            for item in self.items:
                self._discard(item, after)
        message = status.get("message") or {}
        if self.state in (FAILED, REJECTED):
            self.error = parts.words_of(message.get("parts", ())) or "the agent failed"
        else:
            self._message(message, is_final=self.state != WORKING)
        for interrupt in metadata.get(INTERRUPTS) or ():
            self._approval(interrupt)
        if self.state in TERMINAL or self.state in INTERRUPTED:
            self._end(time)

    def _message(self, message: Json, *, is_final: bool) -> None:
        name = message.get("messageId") or f"message-{self._generation}"
        for part in message.get("parts", ()):
            is_notice = "text" in part and parts.event_type(part) in (parts.TASK, parts.ERROR)
            if is_notice and not is_final:
                continue
            item = self._part({"text": part["text"]} if is_notice else part, name)
            if item is not None and not parts.block_id(part):
                self._close(item)

    def _part(self, part: Json, name: str) -> OutputItem | None:
        """Read a part of the message or artifact `name`; return the item that it belongs to."""
        kind, block = parts.event_type(part), parts.block_id(part) or name
        if kind == parts.TOOL_CALL:
            return self._tool(part, block)
        if kind == parts.USAGE:
            add_usage(self.usage, part["data"])
            return None
        if "text" in part and parts.is_thinking(part):
            return self._text("reasoning", block, part)
        if "text" in part and not part.get("filename"):
            return self._text("message", block, part) if parts.text_of([part]) else None
        if kind:
            return None
        item = self._opened("message", f"{block}-{self._generation}-{len(self.items)}")
        self._grow(item, _shown(part))
        self._close(item)
        return item

    def _text(self, kind: Kind, block: str, part: Json) -> OutputItem:
        item = self._opened(kind, block)
        self._grow(item, part["text"])
        if parts.is_block_end(part):
            self._close(item)
        return item

    def _tool(self, part: Json, name: str) -> OutputItem | None:
        if (result := parts.tool_result(part)) is not None:
            item = self._calls.get(result.id)
            if item is not None and item.kind == "mcp_call":
                content = json_text.as_text(result.content)
                item.result, item.result_at = content, self._generation
                item.error = (result.error or content) if result.is_error else None
                self._close(item, is_answered=True)
            return item
        own = parts.tool_call_id(part) or name
        item, is_whole = self._call(own, parts.tool_name(part)), False
        if parts.is_partial_tool_call(part):
            self._grow(item, part["text"])
            is_whole = parts.is_block_end(part)
        elif (call := parts.tool_call(part)) is not None:
            if not item.pieces:
                self._grow(item, json_text.as_text(call.arguments) or "{}")
            is_whole = True
        if is_whole and item.kind == "function_call":
            self._close(item)
        return item

    def _call(self, own: str, tool: str) -> OutputItem:
        known = self._calls.get(own)
        if known is not None and (known.is_open or not tool or known.result is None):
            return known
        kind: Kind = "function_call" if tool in self._functions else "mcp_call"
        item = self._begin_item(kind, (kind, own), tool, self.place.call(own))
        self._calls[own] = item
        return item

    def _approval(self, interrupt: Json) -> None:
        own = interrupt.get("toolCallId")
        if not isinstance(own, str):
            return
        call = self._calls.get(own)
        name = interrupt.get("id")
        shown = self.place.call(name if isinstance(name, str) else own)
        tool = call.name if call else str(interrupt.get("message") or "")
        item = self._begin_item("mcp_approval_request", ("mcp_approval_request", own), tool, shown)
        item.id = shown
        self._grow(item, call.text if call else "{}")
        self._close(item)

    def _opened(self, kind: Kind, block: str) -> OutputItem:
        item = self._open.get((kind, block))
        return item or self._begin_item(kind, (kind, block))

    def _begin_item(
        self, kind: Kind, key: tuple[Kind, str], name: str = "", call: str = ""
    ) -> OutputItem:
        number = len(self.items)
        item = OutputItem(kind, self.place.item(_PREFIXES[kind], number), number, name, call)
        self.items.append(item)
        self._open[key] = item
        self._changes.append(ItemChange(ItemStep.OPENED, item))
        return item

    def _grow(self, item: OutputItem, piece: str) -> None:
        if piece:
            item.pieces.append((self._generation, piece))
            self._changes.append(ItemChange(ItemStep.GREW, item, piece))

    def _close(self, item: OutputItem, *, is_answered: bool = False) -> None:
        if item.kind == "mcp_call" and not is_answered:
            return  # It ends with its result.
        if item.is_open:
            item.is_open = False
            self._changes.append(ItemChange(ItemStep.CLOSED, item))
            self._forget(item)

    def _discard(self, item: OutputItem, after: int) -> None:
        """Drop what the item has got after generation `after`."""
        if item.result_at > after:
            item.result = item.error = None
        kept = [piece for piece in item.pieces if piece[0] <= after]
        if len(kept) == len(item.pieces) and (kept or not item.is_open):
            return
        item.pieces, item.is_left_out = kept, not kept
        self._cut(item)

    def _cut(self, item: OutputItem) -> None:
        if item.is_open:
            item.is_open = False
            self._changes.append(ItemChange(ItemStep.CUT, item))
        self._forget(item)

    def _forget(self, item: OutputItem) -> None:
        self._open = {key: each for key, each in self._open.items() if each is not item}
        if item.is_left_out:
            self._calls = {own: each for own, each in self._calls.items() if each is not item}

    def _end(self, time: str) -> None:
        for item in list(self._open.values()):
            if item.kind == "mcp_call":
                # Nobody answers it any more: it waits for an approval, or its run has failed.
                item.is_left_out = self.state in INTERRUPTED
                self._cut(item)
            else:
                self._close(item)
        self.over, self.ended = True, time

    def tokens(self, name: str) -> int:
        """Return the sum of a count of all models, by AG-UI's name."""
        return sum(usage.get(name, 0) for usage in self.usage)


def _shown(part: Json) -> str:
    """Return a file or data as text: a link in Markdown, an image, or JSON."""
    if "data" in part:
        return json_text.text(part["data"])
    if "text" in part:
        return str(part["text"])
    media_type = str(part.get("mediaType") or "application/octet-stream")
    url = part.get("url") or f"data:{media_type};base64,{part.get('raw', '')}"
    name = str(part.get("filename") or "file").replace("[", "(").replace("]", ")")
    return f"{'!' if media_type.startswith('image/') else ''}[{name}]({url})"
