"""The chunks of one UI message, with what a new attempt or a replaced artifact takes back.

The protocol can't change what it has sent, but remove a step: ``reset-step`` empties the current
one, and what is still valid is sent again. A step is one run.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.events import Json

START, TEXT, REASONING = "start", "text", "reasoning"


class Chunk(NamedTuple):
    """One chunk, and the generation of the event that it was made of."""

    generation: int
    content: Json


@dataclass(slots=True)
class _Sent:
    """A chunk of the current step, or the joined deltas of one block."""

    generation: int
    content: Json
    whose: str
    """The agent's id of the block or artifact that it belongs to."""
    pieces: list[str] | None = None

    def chunk(self) -> Json:
        if self.pieces is None:
            return self.content
        return {**self.content, "delta": "".join(self.pieces)}


@dataclass(slots=True)
class StepChunks:
    """Emits the chunks of a UI message and remembers those of its current step."""

    generation: int = 0
    """Generation of the event that is being read."""
    _new: list[Chunk] = field(default_factory=list)
    _sent: list[_Sent] = field(default_factory=list)
    _open: dict[tuple[str, str], None] = field(default_factory=dict)
    """Blocks of text and reasoning that have started, by kind and the agent's id."""
    _saved: list[int] = field(default_factory=lambda: [0])
    """The generations to which an attempt may go back: the run's input, and the last checkpoint."""

    def pop(self) -> list[Chunk]:
        """Return the chunks since the last call."""
        new, self._new = self._new, []
        return new

    def tell(self, kind: str, /, **fields: object) -> None:
        """Emit a chunk that no reset takes back."""
        self._new.append(Chunk(self.generation, {"type": kind, **fields}))

    def show(self, kind: str, whose: str = "", /, **fields: object) -> None:
        """Emit a chunk of the step; `whose` names the block or artifact that it belongs to."""
        self._keep(_Sent(self.generation, {"type": kind, **fields}, whose))

    def data(self, name: str, key: str, value: object, whose: str = "") -> None:
        """Emit a data part, which replaces the message's earlier one with that name and key."""
        kind, last = f"data-{name}", self._saved[-1]
        self._sent = [
            one
            for one in self._sent
            if one.generation <= last or (one.content["type"], one.content.get("id")) != (kind, key)
        ]
        self.show(kind, whose, id=key, data=value)

    def piece(self, kind: str, block: str, text: str) -> None:
        """Emit a piece of a block, which starts with its first piece."""
        if (kind, block) not in self._open:
            self._open[kind, block] = None
            self.show(f"{kind}-start", block, id=block)
        content = {"type": f"{kind}-delta", "id": block, "delta": text}
        last = self._sent[-1]
        is_same = last.generation > self._saved[-1] and (last.content["type"], last.whose) == (
            content["type"],
            block,
        )
        if last.pieces is not None and is_same:
            last.pieces.append(text)
        else:
            self._sent.append(_Sent(self.generation, content, block, [text]))
        self._new.append(Chunk(self.generation, content))

    def end(self, kind: str, block: str) -> None:
        """End a block if it is open."""
        if (kind, block) in self._open:
            del self._open[kind, block]
            self.show(f"{kind}-end", block, id=block)

    def end_all(self) -> None:
        """End all open blocks, newest first."""
        for kind, block in reversed([*self._open]):
            self.end(kind, block)

    def begin_step(self) -> None:
        """Begin the step of another run."""
        self.tell("start-step")
        self._sent, self._open, self._saved = [], {}, [self.generation]

    def save(self, generation: int) -> None:
        """Record a checkpoint, behind which a later attempt goes on."""
        self._saved = [self._saved[0], generation]

    def restore(self, after: int) -> int:
        """Take back what followed generation `after`; return where the next attempt goes on."""
        kept = max([saved for saved in self._saved if saved <= after], default=self._saved[0])
        self._reset([one for one in self._sent if one.generation <= kept])
        return kept

    def retract(self, whose: str) -> None:
        """Take back what belongs to a block or artifact that begins again."""
        if any(one.whose == whose for one in self._sent):
            self._reset([one for one in self._sent if one.whose != whose])

    def _reset(self, rest: list[_Sent]) -> None:
        if len(rest) == len(self._sent):
            return
        self.tell("reset-step")
        self._sent, self._open = rest, {}
        for one in rest:
            self._new.append(Chunk(self.generation, one.chunk()))
            block, _, what = one.content["type"].rpartition("-")
            if block in {TEXT, REASONING} and what == "start":
                self._open[block, one.whose] = None
            elif block in {TEXT, REASONING} and what == "end":
                self._open.pop((block, one.whose), None)

    def _keep(self, sent: _Sent) -> None:
        self._sent.append(sent)
        self._new.append(Chunk(self.generation, sent.content))
