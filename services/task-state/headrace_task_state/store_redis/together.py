"""Tasks that a batch adds to the view together: one command per key, not several per task.

They are new, begin and end in the batch, and nothing else of the batch is about them. A view that
is rebuilt from last entries consists of such tasks. When each was added by commands of its own,
Redis spent most of the time in the script. The arguments are those of `add_together` in
``lua/listings.lua``.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Self, TypeGuard

from headrace.model import json_text
from headrace_task_state.store import DueList, TaskChange, TaskRemoval
from headrace_task_state.store_redis.encoding import LETTERS, member_of, text_of

MOST = 1000
"""Maximum tasks: Lua's unpack is limited to about 8,000 values."""

_USAGE_WORDS = 6

type Word = bytes | str | int


class _Group:
    """Tasks of one tenant, owner and agent."""

    __slots__ = ("contexts", "listed")

    def __init__(self) -> None:
        """Start without tasks."""
        self.listed: list[Word] = []
        """Score and member of each, in lists of owners."""
        self.contexts: dict[str, list[Word]] = {}
        """Members by context."""


class NewTaskBatch:
    """The new tasks of one batch."""

    def __init__(
        self, view: str, range_name: str, texts: Mapping[int, bytes] | None = None
    ) -> None:
        """Start without tasks; `view` is the prefix of the view's keys, `texts` what is known."""
        self._view, self._range = view, range_name
        self.texts = dict(texts or {})
        """Results of `text_of` by position, also of tasks that are too long to be added together.
        """
        self.places: set[int] = set()
        """Positions of the tasks in the batch."""
        self._texts: list[Word] = []
        self._ended: list[Word] = []
        self._urgent: list[Word] = []
        self._groups = defaultdict[tuple[str, str, str], _Group](_Group)
        """By tenant, owner and agent."""
        self._usage: list[Word] = []

    @classmethod
    def of(cls, changes: Sequence[TaskChange | TaskRemoval], view: str, range_name: str) -> Self:
        """Return those of a batch's `changes` that can be added together."""
        found = cls(view, range_name)
        whole = [(at, one) for at, one in enumerate(changes) if _is_whole(one)]
        if not whole:
            return found
        times = Counter([(one.key.tenant, one.key.task) for one in changes])
        for at, change in whole[:MOST]:
            if times[change.key.tenant, change.key.task] == 1:
                text = found.texts[at] = text_of(change)
                if text:
                    found.places.add(at)
                    found._add(change, text)
        return found

    def _add(self, change: TaskChange, text: bytes) -> None:
        tenant, agent, task = change.key
        name, member = f"{tenant}:{task}", member_of(change)
        self._texts += (f"{self._view}t:{name}", text)
        self._ended += (change.ended or 0, name)
        if change.urgency is not None:
            self._urgent += (change.urgency, name)
        group = self._groups[tenant, change.owner, agent]
        group.listed += (b"0", member)
        group.contexts.setdefault(change.context, []).append(member)
        if change.usage:
            self._usage += (tenant, task, change.owner, agent, change.log)
            self._usage.append(json_text.encode(list(map(list, change.usage))))

    def script_args(self) -> list[Word]:
        """Return the arguments for the script."""
        words: list[Word] = [len(self._texts) // 2, *self._texts]
        sets = self._sets()
        words.append(len(sets))
        for key, scored in sets.items():
            words += (key, len(scored), *scored)
        words.append(len(self._groups))
        for (tenant, owner, agent), group in self._groups.items():
            words += (tenant, owner, agent, len(group.contexts))
            for context, members in group.contexts.items():
                key = f"{self._view}c:{tenant}:{agent}:{context}"
                words += (key, len(members), *members)
        words.append(len(self._usage) // _USAGE_WORDS)
        words += self._usage
        return words

    def _sets(self) -> dict[str, list[Word]]:
        """Return the scores and members of sorted sets, by key."""
        sets = defaultdict[str, list[Word]](list)
        for (tenant, owner, agent), group in self._groups.items():
            sets[f"{self._view}l:{tenant}:{owner}:{agent}"] = group.listed
            sets[f"{self._view}l:{tenant}::{agent}"] += group.listed
        if self._ended:
            sets[f"{self._view}{DueList.ENDED}:{self._range}"] = self._ended
        if self._urgent:
            sets[f"{self._view}{DueList.SUMMARIES}:{self._range}"] = self._urgent
        return sets


def _is_whole(change: TaskChange | TaskRemoval) -> TypeGuard[TaskChange]:
    return (
        isinstance(change, TaskChange)
        and change.begins
        and change.ended is not None
        and change.state in LETTERS
        and not (change.root or change.copied or change.begins_child or change.replaces)
    )
