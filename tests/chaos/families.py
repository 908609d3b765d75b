"""What must hold of tasks and those that they have asked for, when all is over."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model import parts
from headrace.model.delegation import Lineage
from headrace.model.entry import Entry
from headrace.model.task import CANCELED, COMPLETED, TERMINAL, TaskKey
from tests.chaos.agents import WHIMS, asked_by


@dataclass(frozen=True, slots=True)
class Member:
    """One task."""

    key: TaskKey
    asked: str
    """The text of its message."""
    state: str
    """What it has come to."""
    lineage: Lineage | None

    @property
    def is_whim(self) -> bool:
        """Whether its parent wanted nothing of it in the end."""
        return self.lineage is not None and f"key:{WHIMS}" in self.lineage.name


class Families:
    """Tasks by whom has asked for them."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._members: list[Member] = []

    @property
    def size(self) -> int:
        """How many tasks others have asked for."""
        return sum(member.lineage is not None for member in self._members)

    def note(self, key: TaskKey, entries: list[Entry]) -> None:
        """Take a task, by its log."""
        task = entries[0].events[0]["task"]
        asked = parts.text_of(task["history"][0]["parts"])
        lineage = Lineage.of(task.get("metadata") or {})
        self._members.append(Member(key, asked, entries[-1].stamp.state, lineage))

    def wrong(self) -> list[str]:
        """Return what is wrong with them."""
        below: dict[str, list[Member]] = {}
        for member in self._members:
            if member.lineage is not None:
                below.setdefault(member.lineage.parent, []).append(member)
        return [
            f"{member.key.agent} {member.key.task}: {each}"
            for member in self._members
            for each in _wrong(member, below.get(member.key.task, []))
        ]


def _wrong(member: Member, children: list[Member]) -> Iterator[str]:
    if member.lineage is not None and member.state not in TERMINAL:
        yield f"nobody wants it, and it is left at {member.state}"
    if member.is_whim and member.state != CANCELED:
        yield f"nobody waited for it, and it is {member.state}"
    wanted = [child for child in children if not child.is_whim]
    expected = Counter(asked_by(member.key.agent, member.asked) or [])
    got = Counter((child.key.agent, child.asked) for child in wanted)
    if got - expected:
        yield f"it asked {got - expected} more than once"
    if member.state != COMPLETED:
        return
    if got != expected:
        yield f"it asked {dict(got)}, not {dict(expected)}"
    if any(child.state != COMPLETED for child in wanted):
        yield f"it is done, its children are {Counter(child.state for child in wanted)}"
