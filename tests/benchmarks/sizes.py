"""How much is asked."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.contestants import HEADRACE, OFFICIAL


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each measurement asks of each server.

    Chunks per stream differ in the official server's favour: it copies the whole task at every
    event, so that its rate falls as a stream grows (3,300 events/s at 200 chunks, 2,700 at 1,000,
    800 at 20,000); ours does not care, and at 1,000 chunks would be over before it is warm.
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


FULL = Sizes(
    one_stream={OFFICIAL: 1000, HEADRACE: 20_000},
    many_streams={OFFICIAL: 200, HEADRACE: 1000},
    streams=50,
    short_runs=960,
    short_runs_at_once=32,
    first_events=200,
    pause=0.01,
)

TINY = Sizes(
    one_stream={OFFICIAL: 20, HEADRACE: 20},
    many_streams={OFFICIAL: 5, HEADRACE: 5},
    streams=3,
    short_runs=4,
    short_runs_at_once=2,
    first_events=3,
    pause=0.0,
)
"""Proves that the code works; the figures mean nothing."""
