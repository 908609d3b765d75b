"""Ids of a run's output, and its open blocks of text and reasoning."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model import json_text
from headrace.model.events import TextChunks
from headrace.model.run_ids import minted_id, run_digest
from headrace.sdk.errors import MalformedOutput


class RunIds:
    """Generator of ids such as ``block-8c1f29d0ab-0``: kind, digest of the run, number per kind."""

    def __init__(self, task: str, run: int, minted: Mapping[str, int] | None = None) -> None:
        """Generate ids for one run of `task`; `minted` counts existing ids by kind."""
        self._digest = run_digest(task, run)
        self._minted = dict(minted or {})

    @property
    def minted(self) -> dict[str, int]:
        """Number of ids generated so far, by kind."""
        return dict(self._minted)

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`."""
        number = self._minted.get(kind, 0)
        self._minted[kind] = number + 1
        return minted_id(kind, self._digest, number)


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
    label: str = ""
    """The call's id, for a tool call's arguments."""
    type: str = "text"
    title: str = ""
    started: bool = False
    """Whether a piece of the block has been emitted."""
    chunks: TextChunks | None = None
    """For text: encodes every piece after the first."""
    half: str = ""
    """The first half of a character, which waits for the next piece."""

    def joined(self, piece: str, *, end: bool) -> str:
        """Return what to emit with the next piece of text.

        Models' tokens may cut a character into two surrogates. A first half at the end is kept for
        the next piece; a half that stays alone is replaced.
        """
        text, self.half = self.half + piece, ""
        if not end and json_text.ends_in_half(text):
            text, self.half = text[:-1], text[-1]
        return json_text.mended(text)

    @property
    def is_shown(self) -> bool:
        """Whether clients have to learn of the block's end."""
        return self.started or bool(self.half)


class Blocks:
    """The open blocks of one run."""

    def __init__(self, ids: RunIds, next_index: int = 0) -> None:
        """Start without open blocks; `next_index` is the index of the first block opened."""
        self._ids = ids
        self._flow = ""
        self.next_index = next_index
        self._unlabelled: dict[str, Block] = {}
        self._labelled: dict[tuple[str, str], Block] = {}
        self._ended: dict[tuple[str, str], None] = {}
        """Few runs have any: an empty set would take 150 bytes more."""

    def place(self, kind: str, label: str) -> tuple[Block, Block | None]:
        """Return the block that a piece belongs to, and the block that ends before it, if any.

        Raises:
            MalformedOutput: the agent has already ended the block.
        """
        if label:
            return self._place_labelled(kind, label), None
        if (continued := self.continued(kind)) is not None:
            return continued, None
        self._flow = kind
        former = self._unlabelled.get(kind)
        block = self._unlabelled[kind] = self._open(kind)
        return block, former

    def continued(self, kind: str, label: str = "") -> Block | None:
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
        return self.continued(kind, label)

    def interrupt(self, kind: str) -> None:
        """Record output of `kind`: the next unlabelled text or reasoning opens a new block."""
        self._flow = kind

    def halved(self) -> list[tuple[str, Block]]:
        """Return the open blocks that end with half of a character, with their kinds."""
        labelled = [(kind, block) for (kind, _), block in self._labelled.items()]
        return [one for one in (*self._unlabelled.items(), *labelled) if one[1].half]

    def end(self, kind: str, label: str) -> None:
        """Record that the block has ended."""
        if label:
            self._labelled.pop((kind, label), None)
            self._ended[kind, label] = None
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
