"""From an event on NATS to its task: what is published, and where the task's events are seen."""

from dataclasses import dataclass

STREAM = "benchmark"
SUBJECT = "benchmark.events"

SEEN = "benchmark.seen"
"""Where the subscriber publishes what its agent says."""


@dataclass(frozen=True, slots=True)
class EventPath:
    """How a server's agent is called by events."""

    nats_url: str
    seen: str
    """The subject on which the tasks' events are seen, one JSON object per line."""
    gateway: str = ""
    """Where a trigger has to be made first; empty: the server takes events by itself."""
