"""Streams of UI messages: a run from its start, or an answer again and then live."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.task import TASK_HEADER
from headrace_gateway.feeds import FeedBlock, HeldFeed
from headrace_gateway.protocols.ai_sdk.chunks import START, Chunk
from headrace_gateway.protocols.ai_sdk.fold import ChatFold
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.streaming.subscription import Subscriptions

_PROTOCOL = {"x-vercel-ai-ui-message-stream": "v1"}
_DONE = b"data: [DONE]\n\n"
_DELTAS = {"text-delta": "delta", "reasoning-delta": "delta", "tool-input-delta": "inputTextDelta"}
_RESULTS = frozenset({"tool-output-available", "tool-output-error"})


class Beginning(Protocol):
    """Decides which chunks of a log one client gets."""

    has_begun: bool

    def admit(self, chunks: list[Chunk], fold: ChatFold, through: int) -> list[Json]:
        """Return the client's part of the next `chunks`, up to generation `through`."""


class FromInput:
    """A run from its input on, for the client that has sent the input."""

    def __init__(self, generation: int) -> None:
        """Begin with the input of that generation."""
        self.has_begun = False
        self._generation = generation

    def admit(self, chunks: list[Chunk], fold: ChatFold, through: int) -> list[Json]:
        """Withhold earlier runs; a run that goes on begins with the id of its message."""
        self.has_begun = through >= self._generation
        shown = [one.content for one in chunks if one.generation >= self._generation]
        if shown and self._generation > 0 and shown[0]["type"] != START:
            shown.insert(0, {"type": START, "messageId": fold.message})
        self._generation = 0 if shown else self._generation
        return shown


class WholeMessage:
    """The newest UI message from its start: at once up to the log's head, and then live.

    Clients replace what they have of the message: the SDK takes a resumed stream for a replay.
    """

    def __init__(self, head: int) -> None:
        """Begin when the fold has reached generation `head`."""
        self.has_begun = False
        self._head = head
        self._held: list[Json] = []
        self._pieces: list[str] = []
        """Those of the last one held, if it is a delta that goes on."""

    def admit(self, chunks: list[Chunk], fold: ChatFold, through: int) -> list[Json]:  # noqa: ARG002
        """Withhold chunks up to the head; then start with what has become of the message."""
        if self.has_begun:
            return [one.content for one in chunks]
        for one in chunks:
            self._hold(one.content)
        self.has_begun = through >= self._head
        if not self.has_begun:
            return []
        self._join()
        held, self._held = self._held, []
        return _without_done_calls(held)

    def _hold(self, chunk: Json) -> None:
        held, kind = self._held, chunk["type"]
        field = _DELTAS.get(kind)
        if field is not None and held and _continues(held[-1], chunk):
            self._pieces.append(chunk[field])
            return
        self._join()
        if kind == START:
            held.clear()
        elif kind == "reset-step":
            step = max(at for at, one in enumerate(held) if one["type"] == "start-step")
            del held[step + 1 :]
            return
        held.append(chunk)

    def _join(self) -> None:
        """Complete the delta that is held last."""
        if self._pieces:
            last = self._held[-1]
            field = _DELTAS[last["type"]]
            self._held[-1] = {**last, field: "".join([last[field], *self._pieces])}
            self._pieces = []


def _continues(last: Json, chunk: Json) -> bool:
    named = ("type", "id", "toolCallId")
    return all(last.get(name) == chunk.get(name) for name in named)


def _without_done_calls(held: list[Json]) -> list[Json]:
    """Return the chunks without those that ask the client for results that it has given.

    Its page would execute the calls again.
    """
    done = {one["toolCallId"] for one in held if one["type"] in _RESULTS}
    return [one for one in held if not (_asks(one) and one["toolCallId"] in done)]


def _asks(chunk: Json) -> bool:
    """Return whether a chunk has the client execute a call."""
    return chunk["type"] == "tool-input-available" and not chunk["providerExecuted"]


class MessageRenderer(Renderer):
    """Renders one client's chunks of a task's log."""

    __slots__ = ("_beginning", "_fold")

    def __init__(self, task: str, beginning: Beginning) -> None:
        """Render what `beginning` admits of the task's log."""
        self._beginning, self._fold = beginning, ChatFold(task)

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Render the next chunks."""
        fold, beginning = self._fold, self._beginning
        return [
            _event(chunk)
            for block in blocks
            for chunk in beginning.admit(fold.read(block.entry), fold, block.entry.last_generation)
        ]

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the fold decides
        """Return whether the run has ended."""
        return self._beginning.has_begun and self._fold.over

    def ending(self) -> Messages:
        """Return the end of the stream."""
        is_whole = self._beginning.has_begun and self._fold.over
        return (_DONE,) if is_whole else self._broken("the log ended before the run")

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error: the client takes a stream that just ends for a whole answer."""
        lost = why.cause is Cause.LOST
        return self._broken(why.reason if lost else f"{why.reason}; resume the stream")

    @staticmethod
    def _broken(reason: str) -> Messages:
        return _event({"type": "error", "errorText": reason}), _DONE


def _event(chunk: Json) -> bytes:
    return b"data: %b\n\n" % json_text.encode(chunk)


def message_stream(shared: Subscriptions, held: HeldFeed, beginning: Beginning) -> HttpStream:
    """Return the stream of a feed that is handed over."""
    task = held.feed.key.task
    headers, renderer = {**_PROTOCOL, TASK_HEADER: task}, MessageRenderer(task, beginning)
    return HttpStream(shared, held.hand_over(), 0, renderer, headers=headers)
