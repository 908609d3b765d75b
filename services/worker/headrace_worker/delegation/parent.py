"""The attempt that asks: all that its children need of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model.task import TaskKey
from headrace.sdk.interrupt import Interrupt
from headrace.state_client import StateClient
from headrace_worker.appender import Appender
from headrace_worker.concurrency import Permit
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload
from headrace_worker.usage import UsageTotals


@dataclass(frozen=True, slots=True)
class Parent:
    """One attempt of one run."""

    key: TaskKey
    context: str
    run: int
    attempt: int
    bus: Bus
    rule: TailRule
    appender: Appender
    inputs: Inputs
    permit: Permit
    usage_totals: UsageTotals
    offload: Offload
    interrupt: Callable[[], Interrupt]
    """Why its agent is being stopped."""
    deadline: datetime | None = None
    budget: int | None = None
    """Tokens that it may use in all; None: nobody counts."""
    priority: str = "normal"
    traceparent: str | None = None
    most_children: int = 1000
    """Children that its run may ask for, over all attempts."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the user is asked for a child: one question at a time."""

    @property
    def state(self) -> StateClient:
        """Task state."""
        return StateClient(self.bus)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that it may still use; None: nobody counts."""
        return None if self.budget is None else max(self.budget - self.usage_totals.tokens, 0)
