"""What is published of a batch's changes: whose task changed its state, and where gaps are."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.messages import ListChanges, ListedTask
from headrace.model.task import BARE_MESSAGE, COMPLETED, SUBMITTED, WORKING, TaskKey
from headrace_task_state.projector import list_changes
from headrace_task_state.projector.list_changes import ListChangePublisher
from headrace_task_state.store import Fields, Lease, Range, TaskChange, TaskRemoval, Writer
from headrace_task_state.store_memory import MemoryStore
from tests.support.fake_bus import FakeBus
from tests.support.task_states import new_key

FIRST = Range(0)
KEY = new_key()


class RecordingBus(FakeBus):
    """Keeps what is published."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[ListChanges] = []
        self.is_down = False

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Keep the message, unless the connection is down."""
        assert (subject, reply, headers) == (self.subjects.changes(0), "", None)
        if self.is_down:
            raise BusUnavailable("no connection")
        self.published.append(ListChanges.decode(subject, payload))


@pytest.fixture
def bus() -> RecordingBus:
    return RecordingBus()


@pytest.fixture
def writer() -> Writer:
    return MemoryStore([FIRST]).writer(Lease(FIRST, "token", 0))


@pytest.fixture
async def publisher(bus: RecordingBus, writer: Writer) -> AsyncIterator[ListChangePublisher]:
    publisher = ListChangePublisher(bus, writer)
    await publisher.begin(4)
    bus.published.clear()
    yield publisher
    publisher.close()


def begins(key: TaskKey = KEY, state: str = SUBMITTED) -> TaskChange:
    return TaskChange(key, "log", begins=True, owner="ann", context="c", state=state, time=7)


def becomes(state: str, *, ended: int | None = None) -> TaskChange:
    return TaskChange(KEY, "log", state=state, time=8, ended=ended)


def states(bus: RecordingBus) -> list[tuple[str | None, str | None]]:
    return [(task.before, task.state) for message in bus.published for task in message.tasks]


async def test_each_change_of_state_is_published_once_with_whose_task_it_is(
    bus: RecordingBus, publisher: ListChangePublisher
) -> None:
    batches: Sequence[Sequence[TaskChange]] = (
        [begins()],
        [becomes(WORKING)],
        [becomes(WORKING)],
        [TaskChange(KEY, "log")],
        [becomes(COMPLETED, ended=9)],
    )
    for position, changes in enumerate(batches, 5):
        await publisher.publish(position, changes)
    assert states(bus) == [("", SUBMITTED), (SUBMITTED, WORKING), (WORKING, COMPLETED)]
    listed = ListedTask(
        tenant=KEY.tenant,
        agent=KEY.agent,
        task=KEY.task,
        owner="ann",
        context="c",
        state=COMPLETED,
        before=WORKING,
        time=8,
    )
    assert bus.published[-1].tasks == [listed]
    chain = [(message.after, message.end) for message in bus.published]
    assert chain == [(4, 5), (5, 6), (6, 9)], "messages without a change are left out of the chain"


async def test_of_a_task_that_a_previous_holder_began_the_store_knows_whose_it_is(
    bus: RecordingBus,
    publisher: ListChangePublisher,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stored(name: str) -> list[Fields]:
        assert name == f"{KEY.tenant}:{KEY.task}"
        return [{"agent": KEY.agent, "owner": "ann", "context": "c"}]

    monkeypatch.setattr(writer, "fields", stored)
    await publisher.publish(5, [becomes(WORKING)])
    [task] = bus.published[0].tasks
    assert (task.owner, task.context, task.state, task.before) == ("ann", "c", WORKING, None)


async def test_a_task_that_the_view_does_not_have_is_not_published(
    bus: RecordingBus, publisher: ListChangePublisher
) -> None:
    await publisher.publish(5, [becomes(WORKING)])
    assert bus.published == []


async def test_tasks_that_are_gone_or_answered_leave_lists(
    bus: RecordingBus, publisher: ListChangePublisher
) -> None:
    await publisher.publish(
        5, [begins(), becomes(BARE_MESSAGE, ended=9), TaskRemoval(KEY, 1, "ann")]
    )
    assert states(bus) == [("", SUBMITTED), (SUBMITTED, None), (None, None)]
    assert bus.published[0].tasks[-1].owner == "ann"


async def test_what_can_not_be_published_leaves_a_gap(
    bus: RecordingBus,
    publisher: ListChangePublisher,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus.is_down = True
    await publisher.publish(5, [begins()])
    bus.is_down = False

    async def unavailable(name: str) -> list[Fields]:
        raise StateUnavailable(name)

    with monkeypatch.context() as patched:
        patched.setattr(writer, "fields", unavailable)
        await publisher.publish(6, [TaskChange(new_key(), "log", state=WORKING)])
    await publisher.publish(7, [begins(new_key())])
    messages = [(message.after, message.end, len(message.tasks)) for message in bus.published]
    assert messages == [(6, 6, 0), (6, 7, 1)], "readers learn of it without a later change"


async def test_a_new_holder_continues_where_the_view_is(
    bus: RecordingBus, publisher: ListChangePublisher
) -> None:
    await publisher.begin(12)
    assert bus.published == [ListChanges(after=12, end=12, tasks=[])]


async def test_after_a_disturbance_readers_learn_that_something_may_be_missing(
    bus: RecordingBus, publisher: ListChangePublisher
) -> None:
    await publisher.publish(5, [begins()])
    bus._notify()
    await asyncio.sleep(0)
    assert [(message.after, message.end, len(message.tasks)) for message in bus.published] == [
        (4, 5, 1),
        (5, 5, 0),
    ]
    publisher.close()
    bus._notify()
    await asyncio.sleep(0)
    assert len(bus.published) == 2


async def test_as_many_tasks_are_remembered_as_the_limit_says(
    bus: RecordingBus,
    publisher: ListChangePublisher,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    async def stored(name: str) -> list[Fields]:
        asked.append(name)
        return [{"agent": keys[0].agent, "owner": "ann", "context": "c"}]

    monkeypatch.setattr(writer, "fields", stored)
    monkeypatch.setattr(list_changes, "REMEMBERED_TASKS", 2)
    keys = [new_key() for _ in range(3)]
    for position, key in enumerate(keys[:2], 5):
        await publisher.publish(position, [begins(key)])
    for key in keys[:2]:
        await publisher.publish(7, [TaskChange(key, "log", state=WORKING)])
    assert asked == []
    await publisher.publish(8, [begins(keys[2])])
    for key in (keys[2], keys[0]):
        await publisher.publish(9, [TaskChange(key, "log", state=COMPLETED)])
    assert asked == [f"{keys[0].tenant}:{keys[0].task}"]
    assert states(bus)[-2:] == [(SUBMITTED, COMPLETED), (None, COMPLETED)]
