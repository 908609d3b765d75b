"""How the logs are split among replicas."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The shards that one replica applies, in order: those of one event stream.

    Not some shards of a stream: their consumer would need filters, and reading back through blocks
    of 2,000 subjects a consumer with four filters took nats-server 2.15 about 300 µs a message,
    with one filter 20 µs, with none 4 µs. A stream takes in less than one replica applies, and a
    fleet that outgrows that adds streams.
    """

    stream: int
    """Number of the event stream."""

    @property
    def name(self) -> str:
        """How keys, consumers and logs name it."""
        return str(self.stream)


def all_ranges(event_streams: int) -> list[Range]:
    """Return every range of so many event streams, in order."""
    return [Range(number) for number in range(event_streams)]
