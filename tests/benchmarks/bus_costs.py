"""What a question and a run cost over the bus, by FastStream and without it.

``python -m tests.benchmarks.bus_costs`` prints microseconds of processor time in the thread that
answers, or pulls. `docs/design/processes.md` says what follows from the figures.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from faststream import AckPolicy
from faststream.nats import JStream, NatsMessage, NatsResponse, PullSub
from nats.aio.msg import Msg
from nats.js import api
from prometheus_client import CollectorRegistry

from headrace.jetstream.broker import FleetBroker, telemetry
from headrace.jetstream.client import NatsClient
from headrace.jetstream.consumers import ACK, pull_request, pull_subject
from headrace.model.messages import GetTask, RunRequest
from headrace.settings import BusSettings
from tests.support.servers import NatsProcess

QUESTIONS = 20_000
RUNS = 10_000
AT_A_TIME = 32
BATCH = 16

_SUBJECT = "costs.get"
_STREAM, _CONSUMER, _RUNS = "COSTS", "agent", "costs.run.*"
_QUESTION = GetTask(tenant="default", agent="echo", owner="me", task=f"0-{'0' * 32}").encode()
_RUN = RunRequest(log="abcdefgh", context="0" * 36, owner="me").encode()
_ANSWER = b'{"task":{"id":"0","status":{"state":"TASK_STATE_COMPLETED"}}}'

type Pull = Callable[[str, int], Awaitable[None]]
type Answerer = Callable[[str], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def nats_py(url: str) -> AsyncIterator[None]:
    """Answer by a plain subscription."""
    client = await _connected(url)

    async def answer(msg: Msg) -> None:
        GetTask.decode(msg.subject, msg.data)
        await client.publish(msg.reply, _ANSWER)

    await client.subscribe(_SUBJECT, queue="q", cb=answer)
    await client.flush()
    yield
    await client.close()


@asynccontextmanager
async def faststream(url: str, *, is_counted: bool = False) -> AsyncIterator[None]:
    """Answer as task state does."""
    broker = _broker(url, telemetry("costs", CollectorRegistry()) if is_counted else ())

    @broker.subscriber(_SUBJECT, queue="q")
    async def answer(_: GetTask) -> NatsResponse:
        return NatsResponse(_ANSWER)

    async with broker:
        await broker.start()
        await (await broker.connect()).flush()
        yield


def counted(url: str) -> AbstractAsyncContextManager[None]:
    """Answer as task state does, with metrics."""
    return faststream(url, is_counted=True)


def _broker(url: str, middlewares: tuple[Any, ...] = ()) -> FleetBroker:
    return FleetBroker(BusSettings(nats_url=url), "costs", middlewares)


async def _connected(url: str) -> NatsClient:
    client = NatsClient()
    await client.connect(url)
    return client


async def per_question(url: str, answerer: Answerer, number: int) -> float:
    """Return microseconds of this thread's processor time for each question."""
    async with answerer(url):
        await _asked(url, AT_A_TIME)
        before = time.thread_time()
        await _asked(url, number)
        return (time.thread_time() - before) / number * 1e6


async def _asked(url: str, number: int) -> None:
    """Return when another thread has asked `number` questions."""
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            uvloop.run(_ask(url, number))
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    await asyncio.to_thread(thread.join)
    for error in failed:
        raise error


async def _ask(url: str, number: int) -> None:
    client = await _connected(url)

    async def one_after_another() -> None:
        for _ in range(number // AT_A_TIME):
            assert (await client.request(_SUBJECT, _QUESTION, timeout=30)).data == _ANSWER

    await asyncio.gather(*(one_after_another() for _ in range(AT_A_TIME)))
    await client.close()


async def per_run(url: str, pull: Pull, runs: int) -> float:
    """Return microseconds of this thread's processor time to pull and acknowledge each run."""
    client = await _connected(url)
    jetstream = client.jetstream()
    retention = api.RetentionPolicy.WORK_QUEUE
    stream = api.StreamConfig(name=_STREAM, subjects=[_RUNS], retention=retention)
    await jetstream.add_stream(stream)
    consumer = api.ConsumerConfig(
        durable_name=_CONSUMER, filter_subject=_RUNS, max_ack_pending=100_000
    )
    await jetstream.add_consumer(_STREAM, consumer)
    for number in range(runs):
        await client.publish(f"costs.run.{number}", _RUN)
    await client.flush()
    before = time.thread_time()
    async with asyncio.timeout(120):
        await pull(url, runs)
    took = time.thread_time() - before
    await jetstream.delete_stream(_STREAM)
    await client.close()
    return took / runs * 1e6


async def pull_by_request(url: str, runs: int) -> None:
    """Pull as workers do: a request, an inbox, and no waiting for acknowledgements."""
    client = await _connected(url)
    inbox, over = client.new_inbox(), asyncio.Event()
    done = request = 0

    async def receive(msg: Msg) -> None:
        nonlocal done, request
        RunRequest.decode(msg.subject, msg.data)
        await client.publish(msg.reply, ACK)
        done, request = done + 1, request - 1
        if done == runs:
            over.set()
        elif not request:
            await ask()

    async def ask() -> None:
        nonlocal request
        request = BATCH
        await client.publish(pull_subject(_STREAM, _CONSUMER), pull_request(BATCH, 2.0), inbox)

    await client.subscribe(inbox, cb=receive)
    await ask()
    await over.wait()
    await client.close()


async def pull_by_faststream(url: str, runs: int) -> None:
    """Pull as FastStream does."""
    broker, over, done = _broker(url), asyncio.Event(), 0

    @broker.subscriber(
        _RUNS,
        durable=_CONSUMER,
        stream=JStream(_STREAM, declare=False),
        pull_sub=PullSub(batch_size=BATCH, timeout=2.0),
        ack_policy=AckPolicy.MANUAL,
    )
    async def run(_: RunRequest, message: NatsMessage) -> None:
        nonlocal done
        await message.ack()
        done += 1
        if done == runs:
            over.set()

    async with broker:
        await broker.start()
        await over.wait()


async def measure(url: str, questions: int = QUESTIONS, runs: int = RUNS) -> list[str]:
    """Return a line for each way."""
    requests = [
        f"a question, {way.__name__}: {await per_question(url, way, questions):.0f} µs"
        for way in (nats_py, faststream, counted)
    ]
    pulled = [
        f"a run, {pull.__name__}: {await per_run(url, pull, runs):.0f} µs"
        for pull in (pull_by_request, pull_by_faststream)
    ]
    return requests + pulled


def main() -> None:
    """Measure on a server of its own, and print."""
    with tempfile.TemporaryDirectory() as folder, NatsProcess(Path(folder)) as server:
        sys.stdout.writelines(f"{line}\n" for line in uvloop.run(measure(server.url)))


if __name__ == "__main__":
    main()
