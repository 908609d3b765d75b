"""The attempt that delegates, as its children need it."""

from typing import Protocol

from headrace.sdk.context import RunContext
from headrace.sdk.runtime import Interrupt
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.concurrency import Permit
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload
from headrace_worker.resources import WorkerResources
from headrace_worker.usage import UsageTotals


class Parent(Protocol):
    """One attempt of one run."""

    resources: WorkerResources
    assignment: Assignment
    permit: Permit
    appender: Appender
    ctx: RunContext
    interrupted: Interrupt
    """Why its agent is being stopped."""

    @property
    def used(self) -> UsageTotals | None:
        """What the run has used so far, its children's tokens included; None: nothing yet."""

    @property
    def usage(self) -> UsageTotals:
        """The same to add to."""

    @property
    def inputs(self) -> Inputs:
        """The messages to its task."""

    @property
    def files(self) -> Offload:
        """The files of its task."""
