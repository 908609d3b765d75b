"""What all attempts of one worker share."""

import asyncio
from dataclasses import dataclass, field

from headrace.failure_count import FailureCount
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileStore
from headrace.log import TailRule
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.heartbeats import WorkerLeases
from headrace_worker.settings import WorkerSettings
from headrace_worker.timing import Timing
from headrace_worker.usage import Prices


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """Resources that all attempts of one worker share."""

    worker: str
    """Instance id of the worker, usable in NATS subjects."""
    bus: Bus
    leases: WorkerLeases
    rule: TailRule
    settings: WorkerSettings
    timing: Timing
    ticks: AppendTicks
    prices: Prices
    files: FileStore
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Agents that did not stop in time, until they do."""
    failed_clean_ups: FailureCount = field(default_factory=FailureCount)
    """Of tasks that ended without their agents."""
