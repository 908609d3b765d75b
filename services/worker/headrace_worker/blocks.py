"""Which block a piece of text or reasoning belongs to, and which block ends because of it.

A piece without a label goes on with the last block of its kind until the agent says something of
another kind; the next one then opens a new block, and a former block of text ends there. Reasoning
ends as soon as the agent goes on to something else, while text stays open for the tool calls that
belong to it. Labelled blocks may interleave; each is open until the agent ends it, or the run ends.
"""

from dataclasses import dataclass

from headrace.model.events import TextChunks
from headrace.sdk.errors import MalformedOutput
from headrace_worker.ids import RunIds

TEXT = "block"
THINKING = "think"
ARGUMENTS = "arguments"
TOOL = "tool"
"""Kinds of what an agent says; the first two are blocks with an index, and name their ids."""


@dataclass(slots=True)
class Block:
    """One block of a run."""

    id: str
    index: int = -1
    """Position among the run's blocks; -1 for a tool call's arguments, which have none."""
    type: str = "text"
    title: str = ""
    started: bool = False
    """Whether a piece of it has been said."""
    chunks: TextChunks | None = None
    """For text: the frame of each piece but the first."""


class Blocks:
    """The open blocks of one run."""

    def __init__(self, ids: RunIds, next_index: int = 0) -> None:
        """Begin without any; the first one opened gets the index `next_index`."""
        self._ids = ids
        self._flow = ""
        self.next_index = next_index
        self._unlabelled: dict[str, Block] = {}
        self._labelled: dict[tuple[str, str], Block] = {}
        self._ended: set[tuple[str, str]] = set()

    def place(self, kind: str, label: str) -> tuple[Block, Block | None]:
        """Return the block that a piece goes to, and the block that ends before it, if one does.

        Raises:
            MalformedOutput: the agent has ended that block.
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
        """Return the open block that a piece of `kind` would go on with."""
        if label:
            return self._labelled.get((kind, label))
        return self._unlabelled.get(kind) if self._flow == kind else None

    def to_end(self, kind: str, label: str) -> Block | None:
        """Return the open block that an end without a word is for; None: there is none.

        Raises:
            MalformedOutput: it has ended before.
        """
        if (kind, label) in self._ended:
            raise MalformedOutput(f"the block {label!r} has ended")
        return self.going_on(kind, label)

    def interrupt(self, kind: str) -> None:
        """Say that something of `kind` was said: unlabelled text or reasoning begins anew."""
        self._flow = kind

    def end(self, kind: str, label: str) -> None:
        """Take note that the block has ended."""
        if label:
            self._labelled.pop((kind, label), None)
            self._ended.add((kind, label))
        else:
            self._unlabelled.pop(kind, None)

    def close(self) -> list[tuple[str, Block]]:
        """Forget the open blocks and return them, each with its kind; their labels are free again.

        Raises:
            MalformedOutput: one is a tool call whose arguments are incomplete.
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
