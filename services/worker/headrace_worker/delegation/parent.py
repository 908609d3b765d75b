"""The attempt that delegates, as its children need it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model.task import TaskKey
from headrace.sdk.runtime import Interrupt
from headrace.state_client import StateClient
from headrace_worker.appender import Appender
from headrace_worker.concurrency import Permit
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload
from headrace_worker.timing import Timing
from headrace_worker.usage import UsageTotals


@dataclass(frozen=True, slots=True)
class Parent:
    """One attempt of one run."""

    key: TaskKey
    context: str
    owner: str
    run: int
    attempt: int
    head: int
    """Stream sequence of the log's last entry before the attempt."""
    bus: Bus
    rule: TailRule
    appender: Appender
    inputs: Inputs
    permit: Permit
    usage_totals: UsageTotals
    offload: Offload
    timing: Timing
    interrupt: Callable[[], Interrupt]
    """Why its agent is being stopped."""
    deadline: datetime | None = None
    budget: int | None = None
    """Maximum tokens for the run and its children; None: no limit."""
    priority: str = "normal"
    traceparent: str | None = None
    most_children: int = 1000
    """Maximum number of children of its run, over all attempts."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the user answers a child's question: one question at a time."""

    @property
    def state(self) -> StateClient:
        """Client of task state."""
        return StateClient(self.bus)

    @property
    def tokens_left(self) -> int | None:
        """Tokens left of the budget; None: no limit."""
        return None if self.budget is None else max(self.budget - self.usage_totals.tokens, 0)
