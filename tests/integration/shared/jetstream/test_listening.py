"""What is handed on where it is read: a listener's messages, an asker's answers."""

import asyncio
import logging

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from tests.integration.shared.conftest import Connect
from tests.support.nats_proxy import NatsProxy
from tests.support.topology import Topology
from tests.support.waiting import eventually, soon


async def test_a_listener_receives_everything_in_order(bus: Bus, connect: Connect) -> None:
    received: list[bytes] = []
    await bus.listen("news", lambda msg: received.append(msg.data))
    speaker = await connect()

    async def is_heard() -> bool:
        # Another node learns a moment later who listens here.
        await speaker.publish("news", b"begin")
        return bool(received)

    await eventually(is_heard, "the listener hears")
    for number in range(1000):
        await speaker.publish("news", b"%d" % number)
    await soon(lambda: received[-1] == b"999", "all was heard")
    assert [output for output in received if output != b"begin"] == [b"%d" % n for n in range(1000)]


async def test_a_listener_that_fails_is_logged_and_keeps_receiving(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[bytes] = []

    def receive(msg: Msg) -> None:
        received.append(msg.data)
        if len(received) == 1:
            raise RuntimeError("not this one")

    await bus.listen("news", receive)
    await bus.publish("news", b"1")
    await bus.publish("news", b"2")
    await soon(lambda: received == [b"1", b"2"], "both were heard")
    [complaint] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert complaint.exc_info is not None
    assert str(complaint.exc_info[1]) == "not this one"
    caplog.clear()


@pytest.mark.parametrize("value", ["plain", "ünïcödé", '{"a": [1, 2]}', ""])
async def test_headers_arrive_as_they_were_sent(bus: Bus, value: str) -> None:
    received: list[Msg] = []
    await bus.listen("news", received.append)
    for _ in range(2):  # nats-py sees to a name's first message only
        await bus.connection.publish("news", b"body", headers={"One": value, "Two": "2"})
    await bus.connection.flush()
    assert [msg.headers for msg in received] == [{"One": value, "Two": "2"}] * 2
    assert [msg.data for msg in received] == [b"body"] * 2


@pytest.mark.parametrize("value", ["two\r\nlines: 1", "two\nlines: 1", "two\rlines: 1"])
async def test_a_header_is_one_line_whatever_is_in_it(bus: Bus, value: str) -> None:
    received: list[Msg] = []
    await bus.listen("news", received.append)
    for _ in range(2):
        await bus.connection.publish("news", b"body", headers={"One": value})
    await bus.connection.flush()
    assert [list(msg.headers or {}) for msg in received] == [["One"]] * 2
    assert [msg.data for msg in received] == [b"body"] * 2


async def test_an_unsubscribed_client_receives_no_more(bus: Bus) -> None:
    received: list[bytes] = []
    subscription = await bus.listen("news", lambda msg: received.append(msg.data))
    await bus.publish("news", b"1")
    await bus.connection.flush()
    await bus.unsubscribe(subscription)
    await bus.publish("news", b"2")
    await bus.connection.flush()
    assert received == [b"1"]
    assert not bus.connection._listeners.keys() - bus.connection._subs.keys()


async def test_a_listener_and_an_asker_go_on_over_a_reconnect(
    connect: Connect, topology: Topology, bus: Bus
) -> None:
    received: list[bytes] = []
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        reconnected = asyncio.Event()
        shaky.on_disturbance(reconnected.set)
        await shaky.listen("news", lambda msg: received.append(msg.data))
        await shaky.request("$JS.API.INFO", b"", 60.0)
        await proxy.cut()
        await asyncio.wait_for(reconnected.wait(), 60)
        await shaky.request("$JS.API.INFO", b"", 60.0)

        async def has_heard() -> bool:
            # Another node learns a moment later who listens here, and core NATS keeps nothing.
            await bus.publish("news", b"again")
            return b"again" in received

        await eventually(has_heard, "the listener hears again")


async def test_each_asker_gets_its_own_answer_whatever_the_order(bus: Bus) -> None:
    requests: list[Msg] = []
    await bus.listen("echo", requests.append)
    asking = [asyncio.create_task(bus.request("echo", b"%d" % n, 60.0)) for n in range(50)]
    await soon(lambda: len(requests) == 50, "all have asked")
    for question in reversed(requests):
        await bus.publish(question.reply, question.data)
    answers = await asyncio.gather(*asking)
    assert [answer.data for answer in answers] == [b"%d" % n for n in range(50)]


async def test_an_answer_that_comes_too_late_is_nobodys(bus: Bus) -> None:
    requests: list[Msg] = []
    await bus.listen("later", requests.append)
    with pytest.raises(BusUnavailable, match="timeout"):
        await bus.request("later", b"first", 0.05)
    asking = asyncio.create_task(bus.request("later", b"second", 60.0))
    await soon(lambda: len(requests) == 2, "both have asked")
    for question in requests:
        await bus.publish(question.reply, question.data)
    assert (await asking).data == b"second"
    assert bus.connection._answers == {}
