"""Later runs of a thread follow in the order of their inputs, whatever event streams have them."""

from types import SimpleNamespace
from typing import Any, cast

from headrace.log.thread_log import ThreadEntry
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import TaskUnknown
from headrace.model.task import SUBMITTED, TaskKey
from headrace_gateway.protocols.agui.later_runs import ThreadRuns


class FakeThread:
    """A thread whose event streams are read one after the other."""

    name = "thread"

    def __init__(self, *reads: list[ThreadEntry]) -> None:
        self._reads = list(reads)

    async def entries_now(self) -> list[ThreadEntry]:
        return self._reads.pop(0) if self._reads else []


class ErasedTasks:
    """Feeds of tasks that have all been erased meanwhile."""

    def __init__(self) -> None:
        self.asked = list[str]()

    async def open(self, key: TaskKey) -> object:
        self.asked.append(key.task)
        raise TaskUnknown("it has been erased")


def begun(task: str, second: int, stream: int) -> ThreadEntry:
    """Return the first entry of a task."""
    stamp = Stamp("log", 1, "gateway", SUBMITTED, 1, owner="owner")
    entry = Entry(stamp, [b"{}"], second, f"2026-01-31T12:00:0{second}Z")
    return ThreadEntry(TaskKey("t", "a", task), entry, stream, second)


async def test_runs_of_several_event_streams_follow_in_the_order_of_their_inputs() -> None:
    tasks = ErasedTasks()
    thread = FakeThread([begun("0-d", 4, 0), begun("0-e", 5, 0)], [begun("16-b", 2, 1)])
    runs = ThreadRuns(
        cast("Any", SimpleNamespace(feeds=tasks)),
        cast("Any", None),
        cast(
            "Any",
            SimpleNamespace(time="2026-01-31T12:00:02Z", key=begun("0-a", 2, 0).key, number=1),
        ),
        cast("Any", thread),
    )
    assert await runs.read_now() == []
    assert tasks.asked == ["16-b", "0-d", "0-e"]
