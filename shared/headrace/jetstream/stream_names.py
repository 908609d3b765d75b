"""What the streams and buckets of a fleet are called."""

from dataclasses import dataclass

from headrace.model.subjects import stream_of_shard


@dataclass(frozen=True, slots=True)
class Streams:
    """The names of the streams and buckets of one fleet."""

    prefix: str = ""

    @property
    def runs(self) -> str:
        """The work queue of runs."""
        return f"{self.prefix}RUNS"

    @property
    def dead(self) -> str:
        """The dead letters."""
        return f"{self.prefix}DEAD"

    @property
    def agents(self) -> str:
        """The key-value bucket of cards and live instances."""
        return f"{self.prefix}AGENTS"

    @property
    def idempotency(self) -> str:
        """The key-value bucket of what was sent under which Idempotency-Key."""
        return f"{self.prefix}IDEMPOTENCY"

    @property
    def files(self) -> str:
        """The object store of files that are too large for a log."""
        return f"{self.prefix}FILES"

    @property
    def keys(self) -> str:
        """The key-value bucket of what the fleet signs with."""
        return f"{self.prefix}KEYS"

    @property
    def push(self) -> str:
        """The key-value bucket of webhooks, and of how far each has been told."""
        return f"{self.prefix}PUSH"

    @property
    def pushes(self) -> str:
        """The work queue of webhooks that have something to be told."""
        return f"{self.prefix}PUSHES"

    def events(self, number: int) -> str:
        """The `number`-th event stream, from 0."""
        return f"{self.prefix}EVENTS" if number == 0 else f"{self.prefix}EVENTS_{number}"

    def of_shard(self, shard: int) -> str:
        """The event stream that holds `shard`."""
        return self.events(stream_of_shard(shard))
