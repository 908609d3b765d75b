"""The rule that sends an agent's new tasks to its pinned versions.

A version is its card's; the empty one is that of workers that do not pin their version.
"""

import re
from collections.abc import Mapping
from typing import Self
from zlib import crc32

from pydantic import Field

from headrace.model.events import Json
from headrace.model.messages import BusMessage
from headrace.model.subjects import decode_token

UNPINNED = ""
"""The version of workers that do not pin theirs."""

_REMEMBERED = 10
"""Versions that a rollback can return to, one after another."""

_NUMBER = re.compile(r"(\d+)")


class Candidate(BusMessage):
    """A version that gets some of the new tasks."""

    version: str
    percent: int = Field(default=0, ge=0, le=100)
    """Share of the contexts whose new tasks it gets."""
    tenants: list[str] = Field(default_factory=list)
    """Tenants, as tokens, whose new tasks it gets."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header values, by lower-case name: a request with one of them goes to it."""

    def shown(self) -> Json:
        """Return the rule for operators, with tenants as in their credentials."""
        return {
            "version": self.version,
            "percent": self.percent,
            "tenants": [decode_token(tenant) for tenant in self.tenants],
            "headers": self.headers,
        }


class AgentRoute(BusMessage):
    """Where the new tasks of an agent go."""

    current: str = UNPINNED
    """The version of all tasks that no rule sends elsewhere."""
    candidate: Candidate | None = None
    previous: list[str] = Field(default_factory=list)
    """Versions that were current before, newest last."""
    moved: dict[str, str] = Field(default_factory=dict)
    """The version that continues a version's tasks, where that is another one."""

    def version_for(self, agent: str, tenant: str, context: str) -> str:
        """Return the version of a new task, unless a header has chosen one.

        All tasks of a context get the same version while the rule stays. A greater share keeps
        those contexts with the candidate that it already had.
        """
        candidate = self.candidate
        if candidate is None:
            return self.current
        if tenant in candidate.tenants:
            return candidate.version
        # Every agent draws other contexts.
        drawn = crc32(f"{agent}:{context}".encode()) % 100
        return candidate.version if drawn < candidate.percent else self.current

    def chosen_by(self, tenant: str, headers: Mapping[str, str]) -> str | None:
        """Return the version that the tenant or a header of the request chooses; None: neither."""
        candidate = self.candidate
        if candidate is None:
            return None
        is_chosen = tenant in candidate.tenants or any(
            headers.get(name) == value for name, value in candidate.headers.items()
        )
        return candidate.version if is_chosen else None

    def continues(self, version: str | None) -> str | None:
        """Return the version for the next run of a task that is pinned to `version`.

        As in run requests, None is the unpinned version.
        """
        return self.moved.get(version or UNPINNED, version) or None

    def shown(self) -> Json:
        """Return the rule for operators, with tenants as in their credentials."""
        candidate = None if self.candidate is None else self.candidate.shown()
        return {"current": self.current, "candidate": candidate, "continuedBy": self.moved}

    def named(self) -> set[str]:
        """Return the versions that get new tasks, or that a rollback can return to."""
        candidate = set() if self.candidate is None else {self.candidate.version}
        return {self.current, *self.previous} | candidate

    def is_routed_to(self, version: str) -> bool:
        """Return whether new tasks may go to `version`."""
        return version == self.current or (
            self.candidate is not None and version == self.candidate.version
        )

    def trying(self, candidate: Candidate) -> Self:
        """Return the rule that also sends tasks to `candidate`."""
        return self._changed(candidate=candidate, moved=self._unmoved(candidate.version))

    def promoting(self, version: str) -> Self:
        """Return the rule that sends all new tasks to `version`."""
        previous = [*(one for one in self.previous if one != version), self.current]
        if version == self.current:
            previous = self.previous
        return self._changed(
            current=version,
            candidate=None,
            previous=previous[-_REMEMBERED:],
            moved=self._unmoved(version),
        )

    def rolled_back(self) -> Self | None:
        """Return the rule before the last step to a newer version; None: there was none."""
        if self.candidate is not None:
            return self._changed(candidate=None)
        if not self.previous:
            return None
        *previous, current = self.previous
        return self._changed(current=current, previous=previous, moved=self._unmoved(current))

    def moving(self, version: str, to: str) -> Self:
        """Return the rule that lets `to` continue the tasks of `version`."""
        moved = {one: to if by == version else by for one, by in self.moved.items()}
        return self._changed(moved=moved | {version: to})

    def without(self, version: str) -> Self:
        """Return the rule without `version` as one to return to."""
        return self._changed(previous=[one for one in self.previous if one != version])

    def _unmoved(self, version: str) -> dict[str, str]:
        return {one: by for one, by in self.moved.items() if one != version}

    def _changed(self, **changes: object) -> Self:
        return self.model_copy(update=changes)


def first_version(versions: Mapping[str, object]) -> str:
    """Return the version that is current until an operator chooses one.

    It is the unpinned one if that exists, else the lowest: a new version gets no tasks by itself.
    """
    return min(versions, key=_order)


def in_order(versions: Mapping[str, object]) -> list[str]:
    """Return the versions, lowest first; numbers in them are compared as numbers."""
    return sorted(versions, key=_order)


def _order(version: str) -> list[tuple[int, int, str]]:
    parts = _NUMBER.split(version)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts if part]
