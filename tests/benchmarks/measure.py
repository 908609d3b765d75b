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

    def streamed(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a streamed run of `chunks` at connection `index`'s replica."""
        return self.binding.streamed(self._host(index), self.contestant.base, str(chunks))

    def awaited(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a run of `chunks` that is answered at its end."""
        return self.binding.awaited(self._host(index), self.contestant.base, str(chunks))

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


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    name: str
    title: str
    unit: str
    take: Callable[[Place], Awaitable[Sample]]
    at_least: tuple[float, float] | None = None
    """Ratio, ours by theirs, to reach at this stage and in the end."""
    at_most: tuple[float, float] | None = None
    """The same where less is better."""
    limit: float | None = None
    """What ours must not exceed, whatever theirs is."""
    of: Sequence[str] = (OFFICIAL, HEADRACE)
    """Which servers can do such a thing at all."""

    @property
    def targets(self) -> tuple[float, float] | None:
        """The ratios to reach, whichever way; None: the measure is for information."""
        return self.at_least or self.at_most

    def is_met(self, target: float, ratio: float) -> bool:
        """Tell whether `ratio` reaches `target`."""
        return ratio <= target if self.at_most else ratio >= target
