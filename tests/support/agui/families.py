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
from headrace_worker.delegation.relay import Relay

type Said = Callable[[], list[Json]]
"""Draws the parts of something that is said."""
type Names = Callable[[], str]

_ENDS = st.sampled_from([COMPLETED, COMPLETED, FAILED, CANCELED, REJECTED, INPUT_REQUIRED])
_AGENTS = st.sampled_from(["helper", "x", ""])
_HAPPENINGS = st.sampled_from([*["say"] * 8, *["show"] * 3, "end", "again", "odd"])
_DEEPEST = 3


@dataclass(slots=True)
class Kin:
    """A child, and what its own log has come to."""

    task: str
    parent: "Kin | None"
    """None: the task whose log is drawn."""
    relay: Relay
    depth: int
    generation: int = 1
    attempt: int = 1
    state: str = WORKING
    begun: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Family:
    """The descendants of one task; what happens to them comes as drafts for its log.

    The worker's own `Relay` renders them, one in the other for children of children.
    """

    task: str
    context: str
    kin: list[Kin] = field(default_factory=list)

    def draw(self, draw: st.DrawFn, said: Said, names: Names) -> list[Draft]:
        """Draw what happens next, of which the log may show nothing."""
        if not self.kin or draw(st.integers(0, 4)) == 0:
            return self._asked(draw, draw(st.sampled_from([None, *self._hosts()])))
        kin = draw(st.sampled_from(self.kin))
        if kin.state == INPUT_REQUIRED and draw(st.booleans()):
            # Its parent answers it itself: it is asked once more.
            kin.state = WORKING
            return self._upwards(kin.parent, kin.relay.asked("helper", kin.task))
        happening = draw(_HAPPENINGS)
        if happening == "odd":
            return self._odd(draw, kin)
        if happening == "show":
            return self._heard(kin, self._shown(draw, kin, said(), names()))
        return self._heard(kin, self._turn(draw, kin, happening, (said(), names())))

    def _turn(
        self, draw: st.DrawFn, kin: Kin, happening: str, uttered: tuple[list[Json], str]
    ) -> Draft:
        if happening == "again":
            kin.attempt, kin.begun = kin.attempt + 1, set()
            discarded = draw(st.integers(1, kin.generation))
            metadata = {events.ATTEMPT: kin.attempt, events.DISCARDED_AFTER: discarded}
            return self._status(kin, WORKING, None, metadata)
        if happening == "end":
            kin.state = draw(_ENDS)
            if draw(st.booleans()):
                return self._status(kin, kin.state)
        parts, name = uttered
        message = {"messageId": name, "role": "ROLE_AGENT", "parts": parts}
        return self._status(kin, kin.state if happening == "end" else WORKING, message)

    def _hosts(self) -> list[Kin]:
        return [kin for kin in self.kin if kin.depth < _DEEPEST]

    def _asked(self, draw: st.DrawFn, parent: Kin | None) -> list[Draft]:
        task = f"c-{len(self.kin) + 1}"
        asking = (parent.task if parent else self.task), self.context
        kin = Kin(task, parent, Relay(asking, task, all_events=draw(st.integers(0, 5)) > 0), 1)
        kin.depth = parent.depth + 1 if parent else 1
        self.kin.append(kin)
        return self._upwards(parent, kin.relay.asked(draw(_AGENTS), task))

    def _odd(self, draw: st.DrawFn, kin: Kin) -> list[Draft]:
        """Draw what seldom happens, or only where a worker in another language writes it."""
        if draw(st.booleans()):
            return self._upwards(kin.parent, kin.relay.given_up(kin.generation))
        if draw(st.booleans()):
            return self._heard(kin, self._status(kin, AUTH_REQUIRED))
        marker = draw(st.sampled_from([{"task": 7}, {}, {"task": kin.task, "child": {}}, "none"]))
        return [events.status_update(self.task, self.context, WORKING, None, {CHILD: marker})]

    def _heard(self, kin: Kin, event: Draft) -> list[Draft]:
        """Return what an event of a child's log is in its root's."""
        kin.generation += 1
        draft = kin.relay.draft(orjson.loads(event.line(kin.generation)), kin.generation)
        return [] if draft is None else self._upwards(kin.parent, draft)

    def _upwards(self, kin: Kin | None, draft: Draft) -> list[Draft]:
        return [draft] if kin is None else self._heard(kin, draft)

    def _status(
        self, kin: Kin, state: str, message: Json | None = None, metadata: Json | None = None
    ) -> Draft:
        return events.status_update(kin.task, self.context, state, message, metadata)

    def _shown(self, draw: st.DrawFn, kin: Kin, parts: list[Json], name: str) -> Draft:
        append = name in kin.begun and draw(st.integers(0, 4)) > 0
        kin.begun.add(name)
        body = {"artifactId": name, "parts": parts}
        return events.artifact_update(kin.task, self.context, body, append=append)
