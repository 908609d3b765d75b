"""The attempt that delegates, as its children need it."""

from typing import Protocol

from headrace.sdk.context import RunContext
from headrace.sdk.runtime import Interrupt
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.concurrency import Permit
from headrace_worker.emitter import Emitter
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload
from headrace_worker.resources import WorkerResources


class Parent(Protocol):
    """One attempt of one run."""

    resources: WorkerResources
    assignment: Assignment
    permit: Permit
    appender: Appender
    output: Emitter
    ctx: RunContext
    interrupted: Interrupt
    """Why its agent is being stopped."""

    @property
    def inputs(self) -> Inputs:
        """The messages to its task."""

    @property
    def files(self) -> Offload:
        """The files of its task."""
