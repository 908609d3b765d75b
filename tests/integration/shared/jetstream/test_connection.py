"""The connection itself: it waits aloud, comes back by itself, and hangs up when told."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headrace.jetstream.connection import Bus, BusTiming
from headrace.model.errors import BusUnavailable, EventTooLarge
from headrace.settings import BusSettings
from tests.integration.shared.conftest import Connect
from tests.support.live_copies import LiveCopies
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog
from tests.support.topology import Topology
from tests.support.waiting import eventually, soon, until

HASTY = BusTiming(connect_attempt=0.3, close=0.3)


@pytest.fixture(scope="module")
def topology(nats_server: NatsProcess) -> Topology:
    """One node: each connection is to one."""
    return Topology([nats_server])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsProcess]:
    """A server of the test's own, not started."""
    server = NatsProcess(tmp_path)
    yield server
    await asyncio.to_thread(server.kill)


type Buses = Callable[..., Bus]


@pytest.fixture
async def bus_to(server: NatsProcess) -> AsyncIterator[Buses]:
    """Makes buses to the server, which are closed whatever a test finds."""
    async with AsyncExitStack() as opened:

        def made(timing: BusTiming | None = None, **settings: float) -> Bus:
            wanted = BusSettings.model_validate({"nats_url": server.url, **settings})
            bus = Bus(wanted, timing=timing or BusTiming())
            opened.push_async_callback(bus.close)
            return bus

        yield made


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


async def test_a_server_that_is_not_there_yet_is_waited_for_aloud(
    server: NatsProcess, bus_to: Buses, caplog: pytest.LogCaptureFixture
) -> None:
    bus = bus_to(HASTY)
    connecting = asyncio.create_task(bus.connect("early"))
    await soon(lambda: messages(caplog) != [], "it says what it waits for")
    (logged,) = messages(caplog)
    assert f"waiting for NATS at {server.url}" in logged
    await asyncio.to_thread(server.start)
    await connecting
    await TaskLog(bus).begin()
    await bus.close()
    assert messages(caplog) == [logged]


@pytest.mark.parametrize("frozen", [False, True])
async def test_a_server_that_does_not_come_is_given_up(
    server: NatsProcess, bus_to: Buses, *, frozen: bool
) -> None:
    if frozen:
        await asyncio.to_thread(server.start)
        server.freeze()
    bus = bus_to(HASTY, startup_timeout=1.0)
    with pytest.raises(BusUnavailable, match=f"NATS at {server.url} did not answer within 1 s"):
        await asyncio.wait_for(bus.connect("in vain"), 60)


async def test_requests_while_the_server_is_away_fail_and_then_go_on(
    server: NatsProcess, bus_to: Buses, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(server.start)
    bus = bus_to()
    await bus.connect("patient")
    disturbed = asyncio.Event()
    bus.on_disturbance(disturbed.set)
    await asyncio.to_thread(server.kill)
    await soon(lambda: not bus.connected, "the connection is lost")
    with pytest.raises(BusUnavailable):
        await bus.request("anybody", b"", 0.2)
    await asyncio.to_thread(server.start)
    await asyncio.wait_for(disturbed.wait(), 60)
    assert bus.connected
    await TaskLog(bus).begin()
    await bus.close()
    assert messages(caplog) == ["connection to NATS lost; reconnecting"]


async def test_a_missing_holder_is_reported_at_once(bus: Bus) -> None:
    with pytest.raises(BusUnavailable, match="no responders"):
        await asyncio.wait_for(bus.request("nobody.here", b"", 3600.0), 60)


async def test_hanging_up_takes_bounded_time_from_a_frozen_server_too(
    server: NatsProcess, bus_to: Buses
) -> None:
    await asyncio.to_thread(server.start)
    bus = bus_to(HASTY)
    await bus.connect("leaving")
    await bus.subscribe("something", LiveCopies().take)
    server.freeze()
    for _ in range(10):
        await bus.publish("something", b"x" * 500_000)
    await asyncio.wait_for(bus.close(), 60)
    assert bus.connection.is_closed
    server.thaw()


async def test_an_answer_to_a_flush_that_was_given_up_does_no_harm(
    server: NatsProcess, bus_to: Buses
) -> None:
    await asyncio.to_thread(server.start)
    bus = bus_to()
    await bus.connect("hasty")
    server.freeze()
    await asyncio.to_thread(until, lambda: not server.answers(), "the server is frozen")
    with pytest.raises(TimeoutError):
        await bus.connection.flush(0.1)  # type: ignore[arg-type]  # nats-py's annotation is wrong
    server.thaw()
    await TaskLog(bus).begin()
    assert bus.connection.stats["reconnects"] == 0


async def test_what_was_published_before_hanging_up_arrives(connect: Connect, bus: Bus) -> None:
    leaving = await connect()
    came = asyncio.Event()

    async def take(_: object) -> None:
        came.set()

    await bus.subscribe("last.words", take)
    await bus.connection.flush()
    await leaving.publish("last.words", b"bye")
    await leaving.close()
    await asyncio.wait_for(came.wait(), 60)


async def test_a_closed_bus_refuses_in_its_own_words(connect: Connect) -> None:
    bus = await connect()
    subscription = await bus.subscribe("something", LiveCopies().take)
    await bus.close()
    await bus.close()
    await bus.unsubscribe(subscription)
    for refused in (
        bus.request("s", b"", 1.0),
        bus.publish("s", b""),
        bus.subscribe("s", LiveCopies().take),
    ):
        with pytest.raises(BusUnavailable):
            await refused


async def test_clients_cannot_publish_what_only_jetstream_may(
    bus: Bus, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    log, live = TaskLog(bus), LiveCopies()
    await bus.subscribe(bus.subjects.live(log.key), live.take)
    forger = await connect()
    await forger.publish(bus.subjects.live(log.key), b"forged")
    await forger.connection.flush()
    appended = await log.begin()
    await live.until(appended.sequence)
    assert live.sequences == [appended.sequence]
    assert any("permissions violation" in message for message in messages(caplog))


async def _ask(bus: Bus, subject: str, payload: bytes, headers: dict[str, str]) -> None:
    await bus.request(subject, b"", 5)  # which makes the inbox for answers
    await bus.ask(subject, payload, 5, headers)


@pytest.mark.parametrize(
    "send",
    [
        lambda bus, *message: bus.publish(message[0], message[1], headers=message[2]),
        lambda bus, *message: bus.request(message[0], message[1], 5, message[2]),
        _ask,
    ],
    ids=["publish", "request", "ask"],
)
@pytest.mark.parametrize("name", ["Own", "Not-Seen-Before"])
async def test_a_message_too_large_with_its_headers_is_refused_and_the_connection_lasts(
    connect: Connect, send: Callable[..., Awaitable[object]], name: str
) -> None:
    bus = await connect()
    subject, headers = bus.subjects.dead("a", "b"), {name: "x" * 50}
    await bus.publish(subject, b"", headers={"Own": "seen before"})
    payload = b"y" * (bus.max_payload - 20)
    with pytest.raises(EventTooLarge):
        await send(bus, subject, payload, headers)
    await bus.connection.flush()
    assert bus.connection.stats["reconnects"] == 0
    assert bus.answers


async def test_a_connection_that_the_server_ends_with_an_error_comes_back(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    bus = await connect()
    heard = asyncio.Event()
    await bus.listen("heard", lambda _: heard.set())
    assert bus.connection.send_now(b"NO-PROTOCOL\r\n")

    async def is_back() -> bool:
        return bool(bus.connection.stats["reconnects"]) and bus.connected

    await eventually(is_back, "it has reconnected")
    await bus.publish("heard", b"")
    await asyncio.wait_for(heard.wait(), 60)
    assert any("unknown protocol operation" in one for one in messages(caplog))


async def test_a_subject_that_the_server_refuses_costs_no_connection(connect: Connect) -> None:
    bus = await connect()
    await bus.listen("no..subject", lambda _: None)
    await bus.connection.flush()
    await bus.request(bus.subjects.dead("a", "b"), b"", 5)
    assert (bus.connection.stats["reconnects"], bus.answers) == (0, True)
