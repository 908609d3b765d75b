"""How many runs wait for whom, as the work queue's consumers say."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
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
    figures, total = Figures(), 1
    start = f"{bus.subjects.prefix}.run."
    subject = f"$JS.API.CONSUMER.LIST.{bus.streams.runs}"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while figures.lanes < total:
        query = orjson.dumps({"offset": figures.lanes})
        answer = await bus.request(subject, query, max(deadline - loop.time(), 0.01))
        page = orjson.loads(answer.data)
        if "error" in page:
            raise BusUnavailable(f"{subject}: {page['error'].get('description')}")
        total, consumers = page["total"], page["consumers"] or []
        for consumer in consumers:
            _count(figures, consumer, start)
        figures.lanes += max(len(consumers), 1)
    return figures


def _count(figures: Figures, consumer: Json, start: str) -> None:
    tokens = consumer["config"].get("filter_subject", "").removeprefix(start).split(".")
    tenant, agent = (*tokens, "", "")[:2]
    for scope in (Scope(agent), Scope(agent, tenant)):
        figures.waiting[scope] += consumer["num_pending"]
        figures.handed_out[scope] += consumer["delivered"]["consumer_seq"]
