"""What a gateway makes of task state's messages about lists."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg

from headrace.model.messages import ListChanges, ListedTask
from headrace.model.task import WORKING
from headrace_gateway.changes import Batch
from headrace_gateway.list_changes import Item, ListChangeReceiver
from tests.support.fake_bus import FakeBus, message

TASK = ListedTask(
    tenant="default",
    agent="echo",
    task="3-1",
    owner="ann_2dlee",
    context="c",
    state=WORKING,
    time=1_000_001,
)


class ListeningBus(FakeBus):
    """Passes messages to what listens."""

    def __init__(self) -> None:
        super().__init__()
        self.hear: Callable[[Msg], None] | None = None
        self.connection = SimpleNamespace(flush=self._flush)  # type: ignore[assignment]
        self.may_flush = asyncio.Event()
        self.is_heard = asyncio.Event()

    async def listen(self, subject: str, receive: Callable[[Msg], None]) -> Any:  # noqa: ANN401 - a stand-in
        self.receivers[subject] = self.hear = receive  # type: ignore[assignment]
        self.is_heard.set()
        return SimpleNamespace(subject=subject)

    async def _flush(self) -> None:
        await self.may_flush.wait()

    def say(self, after: int, end: int, *tasks: ListedTask, stream: int = 0) -> None:
        """Have the listener hear one message."""
        assert self.hear is not None
        body = ListChanges(after=after, end=end, tasks=list(tasks)).encode()
        self.hear(message(self.subjects.changes(stream), body))


@pytest.fixture
def bus() -> ListeningBus:
    return ListeningBus()


@pytest.fixture
async def receiver(bus: ListeningBus) -> AsyncIterator[ListChangeReceiver]:
    """A receiver that somebody watches and whose subscription exists."""
    receiver = ListChangeReceiver(bus, interest_spreads=3600)
    async with receiver.changes.held():
        bus.may_flush.set()
        await until_received(receiver, 1)
        yield receiver


async def until_received(receiver: ListChangeReceiver, number: int) -> None:
    """Return when watchers have been told something that many times."""
    reader = receiver.changes.reader(0)
    while receiver.changes.head < number:
        await reader.wait()


def read(receiver: ListChangeReceiver, after: int = 1) -> list[Item]:
    return receiver.changes.since(after).items


async def test_the_first_watcher_lists_once_the_subscription_exists(
    bus: ListeningBus,
) -> None:
    receiver = ListChangeReceiver(bus, interest_spreads=0)
    async with receiver.changes.held():
        start = receiver.start("")
        await bus.is_heard.wait()
        assert receiver.changes.since(start).items == []
        bus.may_flush.set()
        await until_received(receiver, 2)  # the second time, a cluster knows the subscription
        assert receiver.changes.since(start) == Batch([None, None], missed=False, end=2)
    assert bus.receivers == {}


async def test_a_later_watcher_lists_at_once(receiver: ListChangeReceiver) -> None:
    assert receiver.changes.since(receiver.start("")).missed


async def test_a_watcher_resumes_where_it_was_on_this_gateway_only(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(4, 5, TASK, TASK)
    assert receiver.start(receiver.cursor(2)) == 2
    starts = [receiver.start(one) for one in ("0a1b2c3d:2", receiver.cursor(4), "x", "-1", ":")]
    assert starts == [-1] * 5


async def test_changes_are_passed_on_as_clients_see_them(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    gone = ListedTask(tenant="default", agent="echo", task="3-1", owner="ann_2dlee")
    bus.say(4, 5, TASK, gone)
    bodies = [json.loads(item.body) for item in read(receiver) if item is not None]
    assert bodies == [
        {
            "task": "3-1",
            "agent": "echo",
            "contextId": "c",
            "owner": "ann-lee",
            "state": WORKING,
            "time": "1970-01-01T00:00:01.000001Z",
        },
        {"task": "3-1", "state": None},
    ]


async def test_a_gap_in_a_streams_messages_means_to_list_again(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(4, 5, TASK)
    bus.say(9, 10, TASK, stream=1)
    bus.say(5, 8, TASK)
    assert None not in read(receiver)
    bus.say(9, 9)
    assert read(receiver)[3:] == [None]


async def test_a_change_behind_a_gap_follows_the_word_of_it(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(4, 5, TASK)
    bus.say(7, 8, TASK)
    assert [item is None for item in read(receiver)] == [False, True, False]


async def test_what_a_stream_lost_before_its_first_message_means_to_list_again(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(9, 9)
    assert read(receiver) == [None]


async def test_a_new_holder_means_to_list_again_wherever_it_begins(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(4, 5, TASK)
    bus.say(5, 5)
    assert read(receiver)[1:] == [None]


async def test_a_disturbed_connection_means_to_list_again(
    bus: ListeningBus, receiver: ListChangeReceiver
) -> None:
    bus.say(4, 5, TASK)
    bus._notify()
    bus.say(7, 8, TASK)
    assert [item is None for item in read(receiver)] == [False, True, False]


async def test_a_malformed_message_is_ignored(
    bus: ListeningBus, receiver: ListChangeReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    assert bus.hear is not None
    bus.hear(message(bus.subjects.changes(0), b"{}"))
    assert read(receiver) == []
    assert "malformed" in caplog.text


async def test_watchers_list_again_at_different_times(bus: ListeningBus) -> None:
    drawn = iter((0.0, 3600.0, 0.0))
    receiver = ListChangeReceiver(bus, interest_spreads=3600, spread=lambda: next(drawn))
    watched = receiver.watched("default", "echo", "ann_2dlee")
    async with watched.held():
        bus.may_flush.set()
        await until_received(receiver, 1)
        readers = [watched.reader(0) for _ in range(3)]
        first = [len(await reader.read_now()) for reader in readers]
        bus.say(1, 2)  # task state lost some changes
        again = [len(await reader.read_now()) for reader in readers]
    assert (first, again) == ([1, 1, 1], [1, 0, 1])


async def test_changes_are_passed_on_without_a_pause(bus: ListeningBus) -> None:
    receiver = ListChangeReceiver(bus, interest_spreads=3600, spread=lambda: 3600.0)
    watched = receiver.watched("default", "echo", "ann_2dlee")
    async with receiver.changes.held():
        bus.may_flush.set()
        await until_received(receiver, 1)
        reader = watched.reader(1)
        bus.say(1, 2, TASK)
        read = [len(await reader.read_now())]
        bus.say(2, 3, TASK)
        read.append(len(await reader.read_now()))
    assert read == [1, 1]


async def test_a_change_wakes_the_tasks_owner_and_operators(bus: ListeningBus) -> None:
    receiver = ListChangeReceiver(bus, interest_spreads=3600)
    async with receiver.changes.held():
        bus.may_flush.set()
        await until_received(receiver, 1)
        waiting = {
            (tenant, agent, owner): asyncio.create_task(reader.wait())
            for tenant, agent, owner in (
                ("default", "echo", "ann_2dlee"),
                ("default", "echo", None),
                ("default", "echo", "bob"),
                ("default", "other", None),
                ("other", "echo", "ann_2dlee"),
            )
            for reader in [receiver.watched(tenant, agent, owner).reader(1)]
        }
        await asyncio.sleep(0)
        bus.say(5, 6, TASK)
        await asyncio.sleep(0)
        woken = [who for who, wait in waiting.items() if wait.done()]
        for wait in waiting.values():
            wait.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)
    assert woken == [("default", "echo", "ann_2dlee"), ("default", "echo", None)]
