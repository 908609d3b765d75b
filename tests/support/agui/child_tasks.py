"""Random child tasks: the events that the parent's worker writes about them into its log."""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
from hypothesis import strategies as st

from headrace.model import events
from headrace.model.delegation import CHILD
from headrace.model.events import Draft, Json
from headrace.model.task import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    WORKING,
)
from headrace_worker.delegation.child_events import Relay

type DrawParts = Callable[[], list[Json]]
"""Draws the parts of something that is said."""
type Names = Callable[[], str]

_ENDS = st.sampled_from([COMPLETED, COMPLETED, FAILED, CANCELED, REJECTED, INPUT_REQUIRED])
_AGENTS = st.sampled_from(["helper", "x", ""])
_HAPPENINGS = st.sampled_from([*["say"] * 8, *["show"] * 3, "end", "again", "odd"])
_DEEPEST = 3


@dataclass(slots=True)
class ChildTask:
    """A child, and what its own log has come to."""

    task: str
    parent: "ChildTask | None"
    """None: the task whose log is drawn."""
    relay: Relay
    depth: int
    generation: int = 1
    attempt: int = 1
    state: str = WORKING
    begun: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ChildTasks:
    """The descendants of one task; what happens to them comes as drafts for its log.

    The worker's own `Relay` renders them, one in the other for children of children.
    """

    task: str
    context: str
    children: list[ChildTask] = field(default_factory=list)

    def draw(self, draw: st.DrawFn, output: DrawParts, names: Names) -> list[Draft]:
        """Draw what happens next, of which the log may show nothing."""
        if not self.children or draw(st.integers(0, 4)) == 0:
            return self._asked(draw, draw(st.sampled_from([None, *self._hosts()])))
        child = draw(st.sampled_from(self.children))
        if child.state == INPUT_REQUIRED and draw(st.booleans()):
            # Its parent answers it itself: it is asked once more.
            child.state = WORKING
            return self._upwards(child.parent, child.relay.delegated("helper", child.task))
        happening = draw(_HAPPENINGS)
        if happening == "odd":
            return self._odd(draw, child)
        if happening == "show":
            return self._heard(child, self._shown(draw, child, output(), names()))
        return self._heard(child, self._turn(draw, child, happening, (output(), names())))

    def _turn(
        self, draw: st.DrawFn, child: ChildTask, happening: str, uttered: tuple[list[Json], str]
    ) -> Draft:
        if happening == "again":
            child.attempt, child.begun = child.attempt + 1, set()
            discarded = draw(st.integers(1, child.generation))
            metadata = {events.ATTEMPT: child.attempt, events.DISCARDED_AFTER: discarded}
            return self._status(child, WORKING, None, metadata)
        if happening == "end":
            child.state = draw(_ENDS)
            if draw(st.booleans()):
                return self._status(child, child.state)
        parts, name = uttered
        message = {"messageId": name, "role": "ROLE_AGENT", "parts": parts}
        return self._status(child, child.state if happening == "end" else WORKING, message)

    def _hosts(self) -> list[ChildTask]:
        return [child for child in self.children if child.depth < _DEEPEST]

    def _asked(self, draw: st.DrawFn, parent: ChildTask | None) -> list[Draft]:
        task = f"c-{len(self.children) + 1}"
        asking = (parent.task if parent else self.task), self.context
        child = ChildTask(
            task, parent, Relay(asking, task, all_events=draw(st.integers(0, 5)) > 0), 1
        )
        child.depth = parent.depth + 1 if parent else 1
        self.children.append(child)
        return self._upwards(parent, child.relay.delegated(draw(_AGENTS), task))

    def _odd(self, draw: st.DrawFn, child: ChildTask) -> list[Draft]:
        """Draw what seldom happens, or only where a worker in another language writes it."""
        if draw(st.booleans()):
            return self._upwards(child.parent, child.relay.given_up(child.generation))
        if draw(st.booleans()):
            return self._heard(child, self._status(child, AUTH_REQUIRED))
        marker = draw(st.sampled_from([{"task": 7}, {}, {"task": child.task, "child": {}}, "none"]))
        return [events.status_update(self.task, self.context, WORKING, None, {CHILD: marker})]

    def _heard(self, child: ChildTask, event: Draft) -> list[Draft]:
        """Return what an event of a child's log is in its root's."""
        child.generation += 1
        draft = child.relay.draft(orjson.loads(event.line(child.generation)), child.generation)
        return [] if draft is None else self._upwards(child.parent, draft)

    def _upwards(self, child: ChildTask | None, draft: Draft) -> list[Draft]:
        return [draft] if child is None else self._heard(child, draft)

    def _status(
        self,
        child: ChildTask,
        state: str,
        message: Json | None = None,
        metadata: Json | None = None,
    ) -> Draft:
        return events.status_update(child.task, self.context, state, message, metadata)

    def _shown(self, draw: st.DrawFn, child: ChildTask, parts: list[Json], name: str) -> Draft:
        append = name in child.begun and draw(st.integers(0, 4)) > 0
        child.begun.add(name)
        body = {"artifactId": name, "parts": parts}
        return events.artifact_update(child.task, self.context, body, append=append)
