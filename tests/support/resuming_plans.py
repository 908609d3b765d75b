"""Hypothesis strategies: random tasks and clients that follow them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support.resuming import Client, Step, round_robin
from tests.support.resuming_bindings import Binding
from tests.support.resuming_protocols import A2A
from tests.support.resuming_wire import Cut

_MOST_BYTES = 20_000
_HEAD = 400
"""An answer's head takes about as many bytes: cuts fall into it as well as behind it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One connection: at which gateway (of however many), in which protocol, cut where."""

    gateway: int
    binding: Binding
    cut: Cut


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """A client's connections; after those it reads on to the end, wherever that takes it."""

    visits: tuple[Visit, ...]
    behind: int | None = None
    """Of a follower: the event of those seen so far behind which it begins; None: at the Task."""
    late: bool = False
    """Of a follower: whether it comes when the task is over."""
    bindings: Sequence[Binding] = A2A
    """The protocols in which it then reads on."""

    def steps(self, gateways: Sequence[str]) -> Iterator[Step]:
        """Return the connections, at `gateways`."""
        for visit in self.visits:
            gateway = gateways[visit.gateway % len(gateways)]
            yield Step(gateway, visit.binding, visit.cut)
        begin = sum(visit.gateway for visit in self.visits)
        yield from round_robin(gateways, self.bindings, begin)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task, the client that starts it and those that come later."""

    agent: str
    text: str
    starter: ClientPlan
    followers: tuple[ClientPlan, ...]

    def follower[C: Client](self, plan: ClientPlan, starter: C) -> C:
        """Return a client that follows the task of `starter` as `plan` says."""
        if plan.behind is None:
            return type(starter)(self.agent, task=starter.task)
        place = min(plan.behind, len(starter.received) - 1)
        return type(starter)(self.agent, task=starter.task, cursor=starter.received[place].cursor)


def _counts() -> st.SearchStrategy[tuple[str, str]]:
    sizes = st.tuples(st.integers(1, 80), st.integers(0, 6))
    return sizes.map(lambda size: ("counter", f"{size[0]} {size[1]}"))


def _talks() -> st.SearchStrategy[tuple[str, str]]:
    words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
    return st.tuples(st.sampled_from(["echo", "assistant"]), words)


def _clients(
    behind: st.SearchStrategy[int | None], bindings: Sequence[Binding]
) -> st.SearchStrategy[ClientPlan]:
    places = st.one_of(st.integers(0, _HEAD), st.integers(0, _MOST_BYTES))
    cuts = st.builds(Cut, places, st.booleans())
    visits = st.builds(Visit, st.integers(0, 3), st.sampled_from(bindings), cuts)
    all_visits = st.lists(visits, max_size=4).map(tuple)
    return st.builds(ClientPlan, all_visits, behind, st.booleans(), st.just(bindings))


def tasks(bindings: Sequence[Binding] = A2A) -> st.SearchStrategy[TaskPlan]:
    """Draw a task and its clients, who follow it in any of `bindings`."""
    later = _clients(st.none() | st.integers(0, 60), bindings)
    followers = st.lists(later, max_size=3).map(tuple)
    return st.builds(
        lambda work, starter, later: TaskPlan(work[0], work[1], starter, later),
        st.one_of(_counts(), _talks()),
        _clients(st.none(), bindings),
        followers,
    )
