"""Check tasks and their child tasks after a run."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model import parts
from headrace.model.delegation import Lineage
from headrace.model.entry import Entry
from headrace.model.task import CANCELED, COMPLETED, TERMINAL, TaskKey
from tests.chaos.agents import DROPPED, delegated_by


@dataclass(frozen=True, slots=True)
class TreeTask:
    """A task of a tree."""

    key: TaskKey
    prompt: str
    """The text of its message."""
    state: str
    """Its last state."""
    lineage: Lineage | None

    @property
    def is_dropped(self) -> bool:
        """Whether its parent did not wait for it."""
        return self.lineage is not None and f"key:{DROPPED}" in self.lineage.name


class TaskTrees:
    """Tasks by their parent."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._members: list[TreeTask] = []

    @property
    def size(self) -> int:
        """Number of child tasks."""
        return sum(member.lineage is not None for member in self._members)

    def add(self, key: TaskKey, entries: list[Entry]) -> None:
        """Add a task, by its log."""
        task = entries[0].events[0]["task"]
        prompt = parts.text_of(task["history"][0]["parts"])
        lineage = Lineage.of(task.get("metadata") or {})
        self._members.append(TreeTask(key, prompt, entries[-1].stamp.state, lineage))

    def problems(self) -> list[str]:
        """Return the problems of all task_trees."""
        below: dict[str, list[TreeTask]] = {}
        for member in self._members:
            if member.lineage is not None:
                below.setdefault(member.lineage.parent, []).append(member)
        return [
            f"{member.key.agent} {member.key.task}: {each}"
            for member in self._members
            for each in _problems(member, below.get(member.key.task, []))
        ]


def _problems(member: TreeTask, children: list[TreeTask]) -> Iterator[str]:
    if member.lineage is not None and member.state not in TERMINAL:
        yield f"its parent has ended, and it is left at {member.state}"
    if member.is_dropped and member.state != CANCELED:
        yield f"its parent did not wait for it, and it is {member.state}"
    wanted = [child for child in children if not child.is_dropped]
    expected = Counter(delegated_by(member.key.agent, member.prompt) or [])
    got = Counter((child.key.agent, child.prompt) for child in wanted)
    if got - expected:
        yield f"it delegated {got - expected} more than once"
    if member.state != COMPLETED:
        return
    if got != expected:
        yield f"it delegated {dict(got)}, not {dict(expected)}"
    if any(child.state != COMPLETED for child in wanted):
        yield f"it has completed, its children are {Counter(child.state for child in wanted)}"
