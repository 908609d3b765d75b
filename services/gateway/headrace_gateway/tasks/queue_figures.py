"""How many runs wait for whom, as the work queue's consumers say."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumers
from headrace.model.events import Json


class Scope(NamedTuple):
    """Whose runs are counted: an agent's, or those of one of its tenants."""

    agent: str
    tenant: str = ""
    """Empty: all."""


@dataclass(slots=True)
class Figures:
    """One look at the queue."""

    waiting: Counter[Scope] = field(default_factory=Counter)
    """Runs that no worker has been handed."""
    handed_out: Counter[Scope] = field(default_factory=Counter)
    """Runs that workers have been handed, ever."""
    lanes: int = 0


async def read_figures(bus: Bus, timeout: float) -> Figures:
    """Look at the queue, within `timeout` seconds.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    figures, start = Figures(), f"{bus.subjects.prefix}.run."
    for consumer in await consumers(bus, bus.streams.runs, timeout):
        _count(figures, consumer, start)
        figures.lanes += 1
    return figures


def _count(figures: Figures, consumer: Json, start: str) -> None:
    tokens = consumer["config"].get("filter_subject", "").removeprefix(start).split(".")
    tenant, agent = (*tokens, "", "")[:2]
    for scope in (Scope(agent), Scope(agent, tenant)):
        figures.waiting[scope] += consumer["num_pending"]
        figures.handed_out[scope] += consumer["delivered"]["consumer_seq"]
