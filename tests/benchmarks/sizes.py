"""How much is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.benchmarks.contestants import FASTA2A, HEADRACE, OFFICIAL, PLAIN, SERVERS


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each measurement asks of each server.

    Chunks per stream differ in the official server's favour: it copies the whole task at every
    event, so that its rate falls as a stream grows (3,300 events/s at 200 chunks, 2,700 at 1,000,
    800 at 20,000); ours does not care, and at 1,000 chunks would be over before it is warm. The
    others' streams last about as long as ours.
    """

    one_stream: Mapping[str, int]
    """Chunks of the one stream, by server."""
    many_streams: Mapping[str, int]
    """Chunks of each of many streams, by server."""
    streams: int
    """How many streams at once."""
    short_runs: int
    """Runs in all."""
    short_runs_at_once: int
    first_events: int
    """Runs whose first event is timed, one after another."""
    pause: float
    """Idle seconds before each of them."""
    events: int
    """Events on NATS that are published at once."""
    few_subscribers: int
    """To one task."""
    many_subscribers: int
    subscribers: Mapping[str, int]
    """Chunks for each of the few, by server; the many get as much in all."""
    hold: int
    """Milliseconds in which they subscribe; three times as long for the many."""
    paced_chunks: int
    """Chunks whose latency is measured."""
    pace: int
    """Milliseconds between them."""
    paced_streams: int
    """Streams at a model's pace."""
    paced_tokens: int
    """Tokens of each of them."""
    token_pace: int
    """Milliseconds between two tokens of one stream."""
    resumed_chunks: int
    idle_subscribers: int
    idle_seconds: float = 0.0
    """For which their processor time is measured."""

    def times(self, number: int) -> "Sizes":
        """Return so many times the work at a time."""
        return replace(
            self,
            paced_streams=self.paced_streams * number,
            short_runs=self.short_runs * number,
            short_runs_at_once=self.short_runs_at_once * number,
        )


FULL = Sizes(
    one_stream={OFFICIAL: 1000, PLAIN: 4000, FASTA2A: 4000, HEADRACE: 20_000},
    many_streams={OFFICIAL: 200, PLAIN: 200, FASTA2A: 200, HEADRACE: 1000},
    streams=50,
    short_runs=960,
    short_runs_at_once=32,
    first_events=200,
    pause=0.01,
    events=1000,
    few_subscribers=100,
    many_subscribers=1000,
    subscribers={OFFICIAL: 200, FASTA2A: 200, HEADRACE: 5000},
    hold=2000,
    paced_chunks=100,
    pace=30,
    paced_streams=60,
    paced_tokens=100,
    token_pace=50,
    resumed_chunks=9_997,
    idle_subscribers=10_000,
)

SMALL = replace(FULL, short_runs=320, paced_tokens=40)
"""Enough for the processor time of a run and of a token."""

TINY = Sizes(
    one_stream=dict.fromkeys(SERVERS, 20),
    many_streams=dict.fromkeys(SERVERS, 5),
    streams=3,
    short_runs=4,
    short_runs_at_once=2,
    first_events=3,
    pause=0.0,
    events=4,
    few_subscribers=3,
    many_subscribers=6,
    subscribers=dict.fromkeys(SERVERS, 4),
    hold=300,
    paced_chunks=3,
    pace=5,
    paced_streams=3,
    paced_tokens=4,
    token_pace=5,
    resumed_chunks=20,
    idle_subscribers=20,
)
"""Proves that the code works; the figures mean nothing."""
