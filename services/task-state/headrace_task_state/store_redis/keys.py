"""The keys in Redis, declared once; the parts below a view are built in ``lua/listings.lua``."""

from dataclasses import dataclass

from headrace_task_state.ranges import Range

SHAPE = "5"
"""Version of what is kept and how, a number. A new one is built from the log beside the old one,
which replicas of the old version go on to keep and to answer from (`store_redis/store.py`)."""

_AHEAD = 10
"""Versions after this one that a fleet may have been rolled back from."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet."""

    fleet: str
    """What all of them start with, whatever their shape."""
    shape: str

    @classmethod
    def of(cls, prefix: str, stream_prefix: str) -> "Keys":
        """Return the keys of the fleet with these prefixes."""
        fleet = f"{prefix}:{stream_prefix}:" if stream_prefix else f"{prefix}:"
        return cls(fleet, SHAPE)

    @property
    def root(self) -> str:
        """What those of this shape start with."""
        return f"{self.fleet}{self.shape}:"

    def others(self) -> "list[Keys]":
        """Return the keys of other versions that may have left something, or be at work."""
        shapes = map(str, range(1, int(self.shape) + _AHEAD))
        return [Keys(self.fleet, shape) for shape in shapes if shape != self.shape]

    @property
    def replicas(self) -> str:
        """Sorted set: the live replicas, by when each counts as gone (ms)."""
        return f"{self.root}replicas"

    @property
    def era(self) -> str:
        """Number of the view in use; a view made of logs that are gone is left for a new one."""
        return f"{self.root}era"

    def lease(self, place: Range) -> str:
        """String, expires: who may write the range."""
        return f"{self.leases}{place.name}"

    @property
    def leases(self) -> str:
        """What the leases' keys start with."""
        return f"{self.root}lease:"

    def epoch(self, place: Range) -> str:
        """Counter: how often the range was taken."""
        return f"{self.root}epoch:{place.name}"

    def progress(self, place: Range) -> str:
        """Hash: how far the range has been applied (`store_redis/progress.py`)."""
        return f"{self.root}progress:{place.name}"

    def view(self, era: int) -> str:
        """What the keys of a view start with."""
        return f"{self.root}{era}:"
