"""The keys in Redis; the parts of a view's keys are built in ``lua/listings.lua``."""

from dataclasses import dataclass

from headrace_task_state.store import Range

SHAPE = "5"
"""Version of the stored data's format, a number. A new version's view is built from the log while
replicas of the old version keep the old view and answer from it (`store_redis/store.py`)."""

_AHEAD = 10
"""Later versions that a fleet may have been rolled back from."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet."""

    fleet: str
    """Prefix of all keys, of any version."""
    shape: str

    @classmethod
    def of(cls, prefix: str, stream_prefix: str) -> "Keys":
        """Return the keys of the fleet with these prefixes."""
        fleet = f"{prefix}:{stream_prefix}:" if stream_prefix else f"{prefix}:"
        return cls(fleet, SHAPE)

    @property
    def root(self) -> str:
        """Prefix of the keys of this version."""
        return f"{self.fleet}{self.shape}:"

    def others(self) -> "list[Keys]":
        """Return the keys of other versions that may have left data or be in use."""
        shapes = map(str, range(1, int(self.shape) + _AHEAD))
        return [Keys(self.fleet, shape) for shape in shapes if shape != self.shape]

    @property
    def replicas(self) -> str:
        """Sorted set: the live replicas, by when each expires (ms)."""
        return f"{self.root}replicas"

    @property
    def era(self) -> str:
        """Number of the view in use; a view whose logs are lost is replaced by a new one."""
        return f"{self.root}era"

    @property
    def usage(self) -> str:
        """Prefix of the keys with usage; they belong to no version, see ``lua/usage.lua``."""
        return f"{self.fleet}usage:"

    def usage_of(self, tenant: str, day: str) -> str:
        """Hash: what a tenant used on a day, by owner, agent, root and kind."""
        return f"{self.usage}d:{tenant}:{day}"

    def lease(self, place: Range) -> str:
        """String that expires: the token of the range's writer."""
        return f"{self.leases}{place.name}"

    @property
    def leases(self) -> str:
        """Prefix of the leases' keys."""
        return f"{self.root}lease:"

    def progress(self, place: Range) -> str:
        """Hash: how far the range has been applied."""
        return f"{self.root}progress:{place.name}"

    def view(self, era: int) -> str:
        """Prefix of a view's keys."""
        return f"{self.root}{era}:"
