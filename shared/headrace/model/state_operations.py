"""Task state's operations: what each is asked with and what it answers.

The client, the subscribers and the document of the bus contract read them from here.
"""

from dataclasses import dataclass
from typing import Any

from headrace.model.messages import (
    BusMessage,
    CancelChild,
    ChildInput,
    CountOpenTasks,
    Done,
    DropFile,
    FindTasks,
    GetTask,
    GetUsage,
    ListTasks,
    ListThreads,
    OpenQueue,
    OpenTasksCounted,
    RowsFound,
    StartTask,
    TaskFound,
    TasksFound,
    TaskStarted,
    ThreadsFound,
    UsageFound,
    WaitForEnd,
    WaitForEvent,
)


@dataclass(frozen=True, slots=True)
class StateOperation[Request: BusMessage, Answer: BusMessage]:
    """One operation; a `Refusal` may take the answer's place."""

    name: str
    """The token of its subject."""
    request: type[Request]
    answer: type[Answer]


type AnyOperation = StateOperation[Any, Any]

GET = StateOperation("get", GetTask, TaskFound)
LIST = StateOperation("list", ListTasks, TasksFound)
FIND = StateOperation("find", FindTasks, RowsFound)
THREADS = StateOperation("threads", ListThreads, ThreadsFound)
USAGE = StateOperation("usage", GetUsage, UsageFound)
OPEN = StateOperation("open", CountOpenTasks, OpenTasksCounted)

START = StateOperation("start", StartTask, TaskStarted)
CANCEL = StateOperation("cancel", CancelChild, Done)
INPUT = StateOperation("input", ChildInput, Done)
QUEUE = StateOperation("queue", OpenQueue, Done)
DROP = StateOperation("drop", DropFile, Done)
WAIT = StateOperation("wait", WaitForEnd, Done)
LISTEN = StateOperation("listen", WaitForEvent, Done)

QUERIES: dict[str, AnyOperation] = {
    one.name: one for one in (GET, LIST, FIND, THREADS, USAGE, OPEN)
}
"""What gateways and workers ask for."""

COMMANDS: dict[str, AnyOperation] = {
    one.name: one for one in (START, CANCEL, INPUT, QUEUE, DROP, WAIT, LISTEN)
}
"""Requests of workers, on subjects that end in their agent's name, which NATS enforces."""
