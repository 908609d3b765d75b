"""A consumer hands on every message in order, or says that it is of no more use."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from headrace.jetstream.client import ReceivedMessage
from headrace.jetstream.consumers import HEARTBEAT
from headrace.model.entry import STATE
from headrace.model.errors import BusUnavailable
from headrace.model.task import COMPLETED, SUBMITTED, WORKING
from headrace_task_state.projector import consumer as consumer_module
from headrace_task_state.projector.consumer import (
    MOST_BYTES,
    MOST_MESSAGES,
    Consumer,
    ConsumerLost,
    read_arrival,
)
from tests.support.fake_bus import message

_SUBJECT = "headrace.event.0.t.a.x"

type Receive = Callable[[Msg], None]


class FakeServer:
    """What a consumer talks to, in place of a bus: the test says what arrives."""

    def __init__(self) -> None:
        self.connection = self
        self.max_payload = 1024
        self.published: list[tuple[str, bytes]] = []
        self.refusal: dict[str, Any] = {}
        self.disturb: Callable[[], None] = lambda: None
        self.receive: Receive | None = None

    def new_inbox(self) -> str:
        return "inbox"

    def on_disturbance(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.disturb = callback
        return lambda: None

    async def listen(self, _: str, receive: Receive) -> str:
        self.receive = receive
        return "subscription"

    async def unsubscribe(self, _: str) -> None:
        self.receive = None

    async def publish(self, subject: str, payload: bytes, _: str = "") -> None:
        self.published.append((subject, payload))
        if "MSG.NEXT" in subject and "expires" not in orjson.loads(payload):
            self.deliver(NO_MORE)

    async def request(self, subject: str, payload: bytes, _: float) -> Msg:
        self.published.append((subject, payload))
        return message("", orjson.dumps(self.refusal))

    def deliver(self, *msgs: Msg) -> None:
        assert self.receive is not None
        for msg in msgs:
            self.receive(msg)

    def answer(self, *msgs: Msg) -> None:
        """End a pull with all that there is."""
        self.deliver(*msgs, NO_MORE)

    @property
    def pulls(self) -> list[bool]:
        """Of each pull, whether it waits for a message."""
        pulls = [payload for subject, payload in self.published if "MSG.NEXT" in subject]
        return ["expires" in orjson.loads(pull) for pull in pulls]


def numbered(number: int, sequence: int | None = None, size: int = 4) -> Msg:
    """Return a message of a task of its own."""
    sequence = number * 10 if sequence is None else sequence
    reply = f"$JS.ACK.EVENTS.name.1.{sequence}.{number}.1700000000000000000.0"
    return message(f"headrace.event.0.t.a.{number}", b"x" * size, reply=reply)


def entry(number: int, state: str, size: int = 4) -> Msg:
    """Return an entry as it is read from the socket."""
    plain = numbered(number, size=size)
    block = f"NATS/1.0\r\n{STATE}: {state}\r\n\r\n".encode()
    return ReceivedMessage(cast("Client", None), plain.subject, plain.reply, plain.data, block)


def heartbeat(number: int, sequence: int) -> Msg:
    headers = {"Nats-Last-Consumer": str(number), "Nats-Last-Stream": str(sequence)}
    return message("", headers=headers | {"Status": "100", "Description": "Idle Heartbeat"})


def status(code: str, description: str, **headers: str) -> Msg:
    return message("", headers=headers | {"Status": code, "Description": description})


NO_MORE = status("404", "No Messages")


@pytest.fixture
def bus() -> FakeServer:
    return FakeServer()


async def opened(bus: FakeServer, heartbeat: float = HEARTBEAT) -> Consumer:
    consumer = Consumer(bus, "EVENTS", "name", heartbeat=heartbeat)  # type: ignore[arg-type]
    await consumer.open(41)
    return consumer


async def test_it_begins_behind_the_position_and_acknowledges_nothing(bus: FakeServer) -> None:
    await opened(bus)
    subject, body = bus.published[0]
    assert subject == "$JS.API.CONSUMER.CREATE.EVENTS.name"
    config = orjson.loads(body)["config"]
    assert (config["opt_start_seq"], config["ack_policy"]) == (42, "none")
    assert bus.pulls == [True]


async def test_messages_are_handed_on_in_order(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(*(numbered(n) for n in range(1, 701)))
    taken = await consumer.fetch(600, 10**6)
    assert [arrival.sequence for arrival in taken] == [n * 10 for n in range(1, 601)]
    assert consumer.waiting == 100
    assert len(await consumer.fetch(600, 10**6)) == 100


async def test_what_waits_is_completed_without_waiting_for_more(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(numbered(1))
    assert len(await consumer.fetch()) == 1
    # The next fetch is the first that waits: until then, nothing is delivered that wakes it.
    assert bus.pulls == [True, False]
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0)
    assert bus.pulls == [True, False, True]
    bus.answer(numbered(2))
    assert [arrival.number for arrival in await fetching] == [2]


async def test_a_pull_that_leaves_messages_behind_is_followed_by_another_at_once(
    bus: FakeServer,
) -> None:
    consumer = await opened(bus)
    bus.deliver(*(numbered(n) for n in range(1, MOST_MESSAGES + 1)))
    assert consumer.is_behind
    await consumer.fetch(MOST_MESSAGES)
    assert bus.pulls == [True, True]
    bus.answer(numbered(MOST_MESSAGES + 1))
    assert len(await consumer.fetch()) == 1
    assert not consumer.is_behind


async def test_while_output_arrives_nothing_is_asked_for_between_two_looks(
    bus: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "OUTPUT_POLL", 3600)
    consumer = await opened(bus)
    waiting = await accumulating(bus, consumer)
    looks = len(bus.pulls)
    await asyncio.sleep(0.01)
    assert len(bus.pulls) == looks
    consumer.want(20)
    await waiting
    assert len(await consumer.fetch()) == 2
    assert len(bus.pulls) == looks + 1


async def test_what_is_taken_at_once_is_bounded_in_bytes_but_never_nothing(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(*(numbered(n, size=100) for n in range(1, 6)))
    assert len(await consumer.fetch(600, 250)) == 2
    assert len(await consumer.fetch(600, 10)) == 1
    assert len(await consumer.fetch(600, 1000)) == 2


async def test_a_hole_ends_it_after_what_came_before(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(numbered(1), numbered(2), numbered(4), numbered(5))
    assert [arrival.number for arrival in await consumer.fetch(600, 10**6)] == [1, 2]
    with pytest.raises(ConsumerLost, match="expected message 3"):
        await consumer.fetch(600, 10**6)


async def test_a_heartbeat_shows_that_the_last_message_went_missing(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.deliver(numbered(1), heartbeat(2, 20))
    assert len(await consumer.fetch(600, 10**6)) == 1
    with pytest.raises(ConsumerLost):
        await consumer.fetch(600, 10**6)


async def test_the_content_of_a_heartbeat_counts_when_the_next_one_confirms_it(
    bus: FakeServer,
) -> None:
    consumer = await opened(bus)
    bus.deliver(numbered(1), heartbeat(1, 50))
    assert consumer.examined == 0
    bus.deliver(heartbeat(1, 60))
    assert consumer.examined == 50
    bus.deliver(numbered(2, 70), heartbeat(2, 80))
    assert consumer.examined == 50


@pytest.mark.parametrize(
    "sign",
    [
        status("409", "Consumer Deleted"),
        status("409", "Server Shutdown"),
        status("503", ""),
    ],
    ids=lambda msg: str(msg.headers),
)
async def test_a_consumer_that_is_gone_is_lost(bus: FakeServer, sign: Msg) -> None:
    consumer = await opened(bus)
    bus.deliver(sign)
    with pytest.raises(ConsumerLost):
        await consumer.fetch(600, 10**6)


async def test_a_pull_that_expires_is_followed_by_another(bus: FakeServer) -> None:
    consumer = await opened(bus)
    for number in (2, 3):
        bus.deliver(status("408", "Request Timeout", **{"Nats-Pending-Messages": "8000"}))
        fetching = asyncio.create_task(consumer.fetch(600, 10**6))
        await asyncio.sleep(0)
        assert bus.pulls == [True] * number
        bus.deliver(NO_MORE)
        assert await fetching == []


async def test_silence_is_a_loss(bus: FakeServer) -> None:
    consumer = await opened(bus, heartbeat=0.01)

    async def take_for_ever() -> None:
        while True:
            assert await consumer.fetch(600, 10**6) == []

    with pytest.raises(ConsumerLost, match="no heartbeats"):
        await take_for_ever()


async def test_an_interrupted_connection_is_a_loss_at_once(bus: FakeServer) -> None:
    consumer = await opened(bus)
    taking = asyncio.create_task(consumer.fetch(600, 10**6))
    await asyncio.sleep(0)
    bus.disturb()
    with pytest.raises(ConsumerLost, match="interrupted"):
        await taking


async def test_a_refused_consumer_makes_the_bus_unavailable(bus: FakeServer) -> None:
    bus.refusal = {"error": {"code": 503, "description": "no room"}}
    with pytest.raises(BusUnavailable, match="no room"):
        await opened(bus)


async def test_it_is_given_back(bus: FakeServer) -> None:
    await (await opened(bus)).close()
    assert bus.published[-1][0] == "$JS.API.CONSUMER.DELETE.EVENTS.name"
    assert bus.receive is None


def test_both_forms_of_reply_subjects_are_read() -> None:
    for start in ("$JS.ACK.EVENTS.name", "$JS.ACK.domain.hash.EVENTS.name"):
        arrival = read_arrival(message(_SUBJECT, reply=f"{start}.1.20.3.17.0"))
        assert (arrival.sequence, arrival.number, arrival.time) == (20, 3, 17)
    arrival = read_arrival(message(_SUBJECT, reply="$JS.ACK._.hash.EVENTS.name.1.20.3.17.0.random"))
    assert (arrival.sequence, arrival.number, arrival.time) == (20, 3, 17)
    with pytest.raises(ValueError, match="not a consumer's reply subject"):
        read_arrival(message(_SUBJECT, reply="$JS.ACK.x"))


async def accumulating(
    bus: FakeServer, consumer: Consumer, kind: str = "accumulate"
) -> "asyncio.Task[None]":
    """Have output accumulate for an hour, after some has arrived."""
    waiting = asyncio.create_task(getattr(consumer, kind)(3600))
    bus.answer(entry(1, WORKING), entry(2, WORKING))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_output_accumulates_until_a_task_stops_working(bus: FakeServer) -> None:
    consumer = await opened(bus)
    waiting = await accumulating(bus, consumer)
    bus.answer(entry(3, COMPLETED))
    await waiting
    assert len(await consumer.fetch(600, 10**6)) == 3


async def test_messages_that_follow_one_that_ends_the_silence_accumulate_with_it(
    bus: FakeServer,
) -> None:
    consumer = await opened(bus)
    waiting = asyncio.create_task(consumer.accumulate(3600, 3600))
    await asyncio.sleep(0)
    for number, state in enumerate((SUBMITTED, WORKING, COMPLETED), 1):
        bus.answer(entry(number, state))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    is_over_before = waiting.done()
    consumer.want()
    await waiting
    assert not is_over_before
    assert len(await consumer.fetch(600, 10**6)) == 3


async def test_a_message_that_already_waits_has_no_others_accumulate(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(entry(1, SUBMITTED))
    await consumer.accumulate(3600, 3600)
    assert len(await consumer.fetch(600, 10**6)) == 1


async def test_output_accumulates_until_a_list_waits_for_it(bus: FakeServer) -> None:
    consumer = await opened(bus)
    waiting = await accumulating(bus, consumer)
    consumer.want()
    await waiting
    assert len(await consumer.fetch(600, 10**6)) == 2


async def test_under_load_a_task_that_stops_working_ends_nothing_and_a_list_does(
    bus: FakeServer,
) -> None:
    consumer = await opened(bus)
    waiting = asyncio.create_task(consumer.accumulate_all(3600))
    bus.answer(entry(1, WORKING), entry(2, COMPLETED))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_over_before = waiting.done()
    consumer.want()
    await waiting
    assert not is_over_before
    assert len(await consumer.fetch(600, 10**6)) == 2


async def accumulates(consumer: Consumer, kind: str) -> bool:
    """Return whether that kind of accumulating goes on, instead of ending at once."""
    waiting = asyncio.create_task(getattr(consumer, kind)(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_over = waiting.done()
    waiting.cancel()
    return not is_over


@pytest.mark.parametrize("kind", ["accumulate", "accumulate_all"])
async def test_what_a_list_wanted_is_forgotten_once_it_is_taken(bus: FakeServer, kind: str) -> None:
    consumer = await opened(bus)
    bus.answer(entry(1, WORKING))
    consumer.want()
    await consumer.fetch(600, 10**6)
    assert await accumulates(consumer, kind)


@pytest.mark.parametrize("kind", ["accumulate", "accumulate_all"])
async def test_what_a_list_wanted_is_not_forgotten_before_it_has_arrived(
    bus: FakeServer, kind: str
) -> None:
    consumer = await opened(bus)
    bus.answer(entry(1, WORKING))
    consumer.want(20)
    await consumer.fetch(600, 10**6)
    bus.answer(entry(2, WORKING))
    await getattr(consumer, kind)(3600)
    assert [one.sequence for one in await consumer.fetch(600, 10**6)] == [20]
    assert await accumulates(consumer, kind)


@pytest.mark.parametrize("kind", ["accumulate", "accumulate_all"])
@pytest.mark.parametrize(("count", "size"), [(MOST_MESSAGES, 4), (3, MOST_BYTES)])
async def test_output_accumulates_until_a_batch_is_full(
    bus: FakeServer, count: int, size: int, kind: str
) -> None:
    consumer = await opened(bus)
    waiting = await accumulating(bus, consumer, kind)
    bus.answer(*(entry(n, WORKING, size) for n in range(3, count + 1)))
    await waiting
    assert consumer.waiting == count


@pytest.mark.parametrize("kind", ["accumulate", "accumulate_all"])
async def test_output_accumulates_until_the_consumer_is_lost(bus: FakeServer, kind: str) -> None:
    consumer = await opened(bus)
    waiting = await accumulating(bus, consumer, kind)
    bus.disturb()
    await waiting
    assert consumer.waiting == 2


async def test_output_accumulates_anew_once_a_batch_is_taken(bus: FakeServer) -> None:
    consumer = await opened(bus)
    bus.answer(entry(1, COMPLETED))
    assert len(await consumer.fetch(600, 10**6)) == 1
    waiting = asyncio.create_task(consumer.accumulate(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_a_silence_lasts_until_a_message_arrives(bus: FakeServer) -> None:
    consumer = await opened(bus)
    waiting = asyncio.create_task(consumer.accumulate(0.0, 0.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    bus.answer(entry(1, WORKING))
    await asyncio.wait_for(waiting, 60)
