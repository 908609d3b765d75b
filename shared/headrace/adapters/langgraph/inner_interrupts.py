"""Which interrupts of a graph's subgraphs have used their answers.

A subgraph notes an answer at its own checkpoint. Its parents learn what follows once it has ended
or asks again, so a worker that is killed in between leaves them with an interrupt that is answered.
LangGraph would take a second answer to it for one to the node's next question.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, PendingWrite
from langgraph.checkpoint.serde.types import INTERRUPT

type _Writes = Mapping[str, Sequence[PendingWrite]]
"""The pending writes of the last checkpoint of each namespace."""


async def answered_inside(saver: BaseCheckpointSaver[Any], thread: str) -> set[str]:
    """Return the ids of interrupts that a graph's thread has, and that its subgraphs have not."""
    writes = dict[str, Sequence[PendingWrite]]()
    async for each in saver.alist({"configurable": {"thread_id": thread}}):
        space = each.config["configurable"].get("checkpoint_ns", "")
        # The newest comes first.
        writes.setdefault(space, each.pending_writes or ())
    noted = [value for _, channel, value in writes.get("", ()) if channel == INTERRUPT]
    return {one.id for value in noted for one in value} - _open(writes, "")


def _open(writes: _Writes, space: str) -> set[str]:
    """Return the interrupts at the last checkpoint of a namespace, as its innermost graphs ask."""
    found = set[str]()
    for task, channel, value in writes.get(space, ()):
        if channel == INTERRUPT:
            inner = [each for each in writes if _is_inside(each, space, task)]
            found |= set[str]().union(*(_open(writes, each) for each in inner)) or {
                one.id for one in value
            }
    return found


def _is_inside(space: str, parent: str, task: str) -> bool:
    """Return whether a namespace is that of a graph that a task of the namespace `parent` runs."""
    [*above, node] = _nodes(space) or [""]
    return above == _nodes(parent) and node.endswith(f":{task}")


def _nodes(space: str) -> list[str]:
    """Return the tasks in a namespace; a node's further calls of graphs have numbers behind it."""
    return [each for each in space.split("|") if each and not each.isdigit()]
