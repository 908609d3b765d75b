"""What all attempts of one worker share."""

import asyncio
from dataclasses import dataclass, field

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace_worker.heartbeats import WorkerLeases
from headrace_worker.settings import WorkerSettings
from headrace_worker.watch import Watch


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """What the attempts of one worker share."""

    worker: str
    """The worker's instance id, a subject token."""
    bus: Bus
    leases: WorkerLeases
    rule: TailRule
    watch: Watch
    settings: WorkerSettings
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Agents that did not stop in time; kept until they do."""
