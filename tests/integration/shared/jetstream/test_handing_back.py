"""What a lease of a run relies on: who may give it back, when, and how long it lasts.

Another process than the one that got the message answers for it here, as task state does for a
worker that died. The consumer waits for ten minutes, so only that answer has it delivered again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout
from nats.js import api

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import IN_PROGRESS, delivery, nak
from headrace.model.errors import BusUnavailable
from headrace.settings import BusSettings
from tests.support.cluster import NatsCluster
from tests.support.jetstream_api import leader_of
from tests.support.servers import NatsProcess
from tests.support.task_submitter import fresh_names
from tests.support.waiting import TIMEOUT, eventually

_CONSUMER = "long"
_LONG = 600.0


@dataclass
class Queue:
    """The queue of runs, who pulls from it, and somebody else."""

    puller: Bus
    other: Bus

    async def fill(self, ack_wait: float = _LONG) -> Msg:
        """Return a run that has just been delivered."""
        runs = self.puller.streams.runs
        config = api.ConsumerConfig(
            durable_name=_CONSUMER,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ack_wait,
            max_deliver=-1,
        )
        await self.puller.js.add_consumer(runs, config)
        await self.puller.js.publish(f"{self.puller.subjects.prefix}.run.t.long.x.1", b"{}")
        return await self.next()

    async def next(self, timeout: float = TIMEOUT) -> Msg:
        """Return the next delivery."""
        pulling = await self.puller.js.pull_subscribe_bind(_CONSUMER, self.puller.streams.runs)
        try:
            [run] = await pulling.fetch(1, timeout=timeout)
        finally:
            await pulling.unsubscribe()
        return run

    async def is_confirmed(self, reply: str, answer: bytes) -> bool:
        """Return whether the server confirms the answer of somebody else."""
        try:
            await self.other.request(reply, answer, 1.0)
        except BusUnavailable:
            return False
        return True

    async def answer(self, reply: str, answer: bytes) -> None:
        """Have somebody else answer for a run, once the server confirms it."""
        await eventually(lambda: self.is_confirmed(reply, answer), "the server confirms the answer")


@asynccontextmanager
async def opened(url: str, replicas: int) -> AsyncIterator[Queue]:
    given = {"nats_url": url, "replicas": replicas, **fresh_names()}
    settings = BusSettings.model_validate(given)
    puller, other = Bus(settings), Bus(settings)
    try:
        await puller.connect("puller")
        await other.connect("other")
        yield Queue(puller, other)
    finally:
        await asyncio.gather(puller.close(), other.close())


@pytest.fixture
async def queue(nats_server: NatsProcess) -> AsyncIterator[Queue]:
    async with opened(nats_server.url, 1) as queue:
        yield queue


async def test_another_process_gives_a_run_back(queue: Queue) -> None:
    run = await queue.fill()
    await queue.answer(run.reply, nak())
    assert delivery((await queue.next()).reply).number == 2


async def test_an_earlier_delivery_gives_it_back_too(queue: Queue) -> None:
    first = await queue.fill()
    await queue.answer(first.reply, nak())
    await queue.next()
    await queue.answer(first.reply, nak())
    assert delivery((await queue.next()).reply).number == 3


async def test_a_run_that_is_done_does_not_come_back(queue: Queue) -> None:
    run = await queue.fill()
    await run.ack_sync()
    await queue.answer(run.reply, nak())
    with pytest.raises(NatsTimeout):
        await queue.next(0.5)


async def test_a_long_lease_outlasts_the_consumers_and_ends_by_any_other_answer(
    queue: Queue,
) -> None:
    run = await queue.fill(ack_wait=0.5)
    await queue.answer(run.reply, nak(_LONG))
    with pytest.raises(NatsTimeout):
        await queue.next(2.0)
    await queue.answer(run.reply, IN_PROGRESS)
    again = await queue.next()
    await queue.answer(again.reply, nak(_LONG))
    await queue.answer(again.reply, nak())
    assert delivery((await queue.next()).reply).number == 3


async def test_a_new_leader_takes_the_answer_for_what_the_old_one_delivered(
    nats_cluster: NatsCluster,
) -> None:
    async with opened(nats_cluster.url, 3) as queue:
        run = await queue.fill()
        await queue.answer(run.reply, nak(_LONG))
        named = await leader_of(
            queue.other.connection, f"CONSUMER.INFO.{queue.other.streams.runs}.{_CONSUMER}"
        )
        try:
            await asyncio.to_thread(nats_cluster.node(named).kill)

            async def comes_again() -> bool:
                await queue.is_confirmed(run.reply, nak())
                try:
                    return delivery((await queue.next(1.0)).reply).sequence == 1
                except Exception:  # noqa: BLE001  # until there is a new leader
                    return False

            await eventually(comes_again, "the run is delivered again", 120)
        finally:
            await asyncio.to_thread(nats_cluster.heal)
