"""What a measurement is, and what it is given."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.benchmarks.bindings import Binding
from tests.benchmarks.contestants import HEADRACE, OFFICIAL, Contestant, host_of
from tests.benchmarks.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, of whole runs only."""

    value: float
    done: int
    """Events, or runs, that it counts."""
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample is taken."""

    contestant: Contestant
    binding: Binding
    sizes: Sizes
    prepared: Sequence[str] = ()
    """What `Measure.prepare` returned."""

    def streamed(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a streamed run of `chunks` at connection `index`'s replica."""
        return self.binding.streamed(self._host(index), self.contestant.base, str(chunks))

    def awaited(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a run of `chunks` that is answered at its end."""
        return self.binding.awaited(self._host(index), self.contestant.base, str(chunks))

    def asked(self, index: int = 0) -> bytes:
        """Return a request for a run of the agent that asks, answered when it waits."""
        return self.binding.awaited(self._host(index), self.contestant.asker, "Ann")

    def replied(self, task: str, index: int = 0) -> bytes:
        """Return a request that tells that agent what it asked, answered when `task` has ended."""
        return self.binding.replied(self._host(index), self.contestant.asker, "Bob", task)

    def read(self, task: str, index: int = 0) -> bytes:
        """Return a request for a task of the counter agent as it is."""
        return self.binding.read(self._host(index), self.contestant.base, task)

    def paced(self, chunks: int, delay: int, hold: int, url: str = "") -> bytes:
        """Return a request for a streamed run of the agent that waits; see `agents.paced`."""
        host = host_of(url) if url else self._host(0)
        return self.binding.streamed(host, self.contestant.paced, f"{chunks} {delay} {hold}")

    def subscribed(self, task: str, url: str = "") -> bytes:
        """Return a request for the stream of a task of that agent."""
        host = host_of(url) if url else self._host(0)
        return self.binding.subscribed(host, self.contestant.paced, task)

    def _host(self, index: int) -> str:
        hosts = self.contestant.hosts
        return hosts[index % len(hosts)]


COST = "processor time"
"""Names the processor time of each run or event, as a figure beside the details of samples."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure of Headrace is to reach, beside a peer's or by itself."""

    bound: float
    of: str = ""
    """The peer by whose figure ours is divided; empty: ours alone, in the unit of the measure."""
    figure: str = ""
    """A detail of the samples, or `COST`; empty: their value."""
    is_floor: bool = False
    """Whether more is better."""

    def is_met(self, reached: float) -> bool:
        """Tell whether a figure, or ratio, reaches this goal."""
        return reached >= self.bound if self.is_floor else reached <= self.bound


def at_least(bound: float, of: str, figure: str = "") -> Goal:
    """Return the goal that a ratio is not below `bound`."""
    return Goal(bound, of, figure, is_floor=True)


def at_most(bound: float, of: str = "", figure: str = "") -> Goal:
    """Return the goal that a ratio, or a figure of ours alone, is not above `bound`."""
    return Goal(bound, of, figure)


async def _nothing(_: Place) -> Sequence[str]:
    """Prepare nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    name: str
    title: str
    unit: str
    take: Callable[[Place], Awaitable[Sample]]
    each: str = "event"
    """What `Sample.done` counts."""
    goals: Sequence[Goal] = ()
    of: Sequence[str] = (OFFICIAL, HEADRACE)
    """Which servers can do such a thing at all."""
    prepare: Callable[[Place], Awaitable[Sequence[str]]] = _nothing
    """Makes, before each sample, what `take` needs, and returns its ids: tasks that wait, threads.

    It is neither timed nor part of the processor time.
    """
