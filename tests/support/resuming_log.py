"""Derive from the stored log what a client that followed the task must have received."""

from dataclasses import dataclass

from headrace.model.fold import TaskFold
from tests.support.event_stream import Json
from tests.support.resuming_bindings import Received
from tests.support.stored_log import read_log


@dataclass(frozen=True, slots=True)
class WholeLog:
    """One task's log."""

    id: str
    events: list[Json]

    def after(self, generation: int) -> list[Received]:
        """Return what a client sees that resumes behind `generation`."""
        following = enumerate(self.events[generation:], generation + 1)
        return [Received(f"{self.id}:{number}", event) for number, event in following]

    def snapshot(self, generation: int) -> Json:
        """Return the Task as it was after `generation`."""
        fold = TaskFold()
        for event in self.events[:generation]:
            fold.apply(event)
        return fold.task()


async def whole_log(nats_url: str | list[str], agent: str, task: str) -> WholeLog:
    """Return a task's log, read from NATS.

    Raises:
        AssertionError: there is none.
    """
    messages = await read_log(nats_url, agent, task)
    assert messages, f"nothing is stored of {task}"
    [log_id] = {message.headers["Headrace-Log"] for message in messages}
    return WholeLog(log_id, [event for message in messages for event in message.events])


def assert_exact(received: list[Received], expected: list[Received]) -> None:
    """Return if a client got just what it should: no gap, no duplicate, no other order."""
    for place, (got, wanted) in enumerate(zip(received, expected, strict=False)):
        assert got.cursor == wanted.cursor, f"{_around(received, place)}, not {wanted.cursor}"
        assert got.event == wanted.event, f"at {got.cursor} {got.event}, not {wanted.event}"
    assert len(received) == len(expected), (
        f"{len(received)} events instead of {len(expected)}; {_around(received, -1)}"
    )


def _around(received: list[Received], place: int) -> str:
    place %= len(received) or 1
    return "came: " + ", ".join(each.cursor for each in received[max(place - 2, 0) : place + 1])
