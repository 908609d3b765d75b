"""Run requests and their queues.

A queue holds the waiting runs of one agent, tenant and priority. Each queue is a consumer of the
stream RUNS, so that workers can take turns between queues: however many runs one tenant has
waiting, another tenant's first run is next. Workers create the queue of the default tenant as they
start. Other queues are created with the first run request. Workers in an account without streams
have task state create queues.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from nats.aio.msg import Msg
from opentelemetry.trace import Span, SpanKind

from headrace import tracing
from headrace.jetstream.api import (
    Json,
    get_message,
    sequence_of,
    store_soon,
    store_with_retries,
    stream_info,
    until_answered,
)
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, nak, reply_subject
from headrace.jetstream.durables import ensure_consumer, of_runs
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.log.read import headers_of
from headrace.model.entry import stating
from headrace.model.errors import BusUnavailable, StateUnavailable, StreamsDiffer
from headrace.model.messages import OpenQueue
from headrace.model.queues import RunQueue
from headrace.model.run import Run
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey
from headrace.state_client import StateClient
from headrace.tasks.delayed_runs import delay, is_delayed
from headrace.tracing import Plain, SpanTemplate

REMEMBERED = 60.0
"""Seconds for which an existing queue is assumed to still exist."""

UNUSED = 600.0
"""Seconds without a run after which a queue is deleted; many times `REMEMBERED`, so that no process
that assumes the queue exists publishes into a deleted one."""


async def ensure_queue(bus: Bus, queue: RunQueue, timeout: float = 5.0) -> None:
    """Create the queue if it is missing, through task state if this process may not.

    Raises:
        BusUnavailable: JetStream or task state does not answer, or refuses.
        StreamsDiffer: It exists and violates the bus contract.
    """
    try:
        await make_queue(bus, queue, timeout)
    except Refused as refused:
        if refused.number != ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
            raise
        await _request_if_missing(bus, queue, timeout)


async def _request_if_missing(bus: Bus, queue: RunQueue, timeout: float) -> None:
    try:
        await consumer_info(bus, bus.streams.runs, queue.consumer, timeout)
    except Refused as refused:
        if refused.number == ErrorCode.CONSUMER_NOT_FOUND:
            await _ask_for(bus, queue)
            return
        if refused.number != ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
            raise
        raise BusUnavailable(no_right_to(queue.consumer)) from refused


def no_right_to(consumer: str) -> str:
    """Return the error message for a queue that this process's NATS account may not use."""
    return (
        f"NATS does not permit this worker to use the queue {consumer}: add its agent, tenant or "
        "version to the worker's group (headrace nats-permissions)"
    )


async def _ask_for(bus: Bus, queue: RunQueue) -> None:
    wanted = OpenQueue(
        tenant=queue.tenant, agent=queue.agent, priority=queue.priority, version=queue.version
    )
    try:
        await StateClient(bus).open_queue(wanted)
    except StateUnavailable as error:
        raise BusUnavailable(f"queue {queue.consumer}: {error}") from error


async def make_queue(bus: Bus, queue: RunQueue, timeout: float = 5.0) -> None:
    """Create the queue's consumer of the stream RUNS if it is missing, within `timeout` seconds.

    Raises:
        StreamsDiffer: It exists and violates the bus contract.
        BusUnavailable: JetStream does not answer or refuses.
    """
    config = of_runs(bus.subjects, queue)
    await ensure_consumer(bus, bus.streams.runs, config, timeout)


class RunQueues:
    """Makes sure that published runs have a queue."""

    def __init__(self, bus: Bus) -> None:
        """Create queues on `bus`."""
        self._bus = bus
        self._known: dict[tuple[str, str, str, str], float] = {}

    def is_known(self, queue: tuple[str, str, str, str]) -> bool:
        """Return whether the queue, a `RunQueue`, was opened recently."""
        now = asyncio.get_running_loop().time()
        return now - self._known.get(queue, -REMEMBERED) < REMEMBERED

    async def open(self, queue: RunQueue) -> None:
        """Return once the queue exists. A queue that was opened recently is not checked.

        Raises:
            BusUnavailable: JetStream does not answer or refuses.
        """
        if self.is_known(queue):
            return
        now = asyncio.get_running_loop().time()
        try:
            await until_answered(self._bus, lambda: ensure_queue(self._bus, queue))
        except StreamsDiffer as error:
            raise BusUnavailable(f"queue {queue.consumer}: {error}") from error
        self._known = {one: at for one, at in self._known.items() if now - at < REMEMBERED}
        self._known[queue] = now
        await self._bus.publish(self._bus.subjects.queue(queue.agent), b"")


_LOOK_EVERY = 0.1

_RELEASE = 2.0
"""Seconds for the queue to confirm the release of a run."""


class RunRequests:
    """Publishes run requests and makes sure that they have a queue."""

    def __init__(self, bus: Bus) -> None:
        """Publish on `bus`."""
        self._bus, self._queues = bus, RunQueues(bus)
        self._headers = stating(bus.settings.log_version)

    async def publish(self, run: Run) -> bool:
        """Publish the run's request, when it is due.

        Return whether it is new.

        Raises:
            Refused: The work queue is full (`is_full`) or does not accept it.
            BusUnavailable: JetStream does not answer.
        """
        if not tracing.is_enabled():
            return await self._publish_request(run)
        span = self._start_span(run)
        try:
            return await self._publish_request(run)
        except BaseException as error:
            tracing.note_error(span, type(error).__name__)
            raise
        finally:
            span.end()

    def send(self, run: Run, answered: Callable[[bool], None]) -> bool:
        """Send the run's request now, without a coroutine; return whether it could be sent so.

        If not, only `publish` can, because the queue may not exist, or the run may not be due yet.
        `answered` is called with whether the request is stored. Otherwise `publish` must follow: a
        copy is harmless. It is not called if the process ends first.
        """
        key, terms, version = run.key, run.terms, run.terms.version or ""
        if terms.start_at is not None:
            return False
        # As `run.queue` and `_subject`: two calls less for each run.
        token = encode_token(version) if version else ""
        if not self._queues.is_known((key.agent, key.tenant, terms.priority, token)):
            return False
        subject = self._bus.subjects.run(key, run.generation, terms.priority, version)
        span = self._start_span(run) if tracing.is_enabled() else None

        # One callback for the span and the caller: the loop schedules each, and each would read
        # the answer.
        def end(answer: asyncio.Future[Msg]) -> None:
            failure = self._failure_in(subject, answer)
            if span is not None:
                if failure:
                    tracing.note_error(span, failure)
                span.end()
            if not answer.cancelled():
                answered(not failure)

        sent = store_soon(self._bus, subject, run.encode(), self._headers)
        sent.add_done_callback(end)
        return True

    def _failure_in(self, subject: str, answer: asyncio.Future[Msg]) -> str:
        """Return the class of the error in an answer; empty: the request is stored."""
        if answer.cancelled():
            return asyncio.CancelledError.__name__
        try:
            sequence_of(self._bus, subject, answer)
        except BusUnavailable as error:
            return type(error).__name__
        return ""

    def _start_span(self, run: Run) -> Span:
        template = _span_template(self._bus.streams.runs, run.key.agent)
        attributes: dict[str, Plain] = {
            "headrace.task.id": run.key.task,
            "headrace.run": run.generation,
        }
        return tracing.start_span_of(template, run.terms.traceparent, attributes)

    async def _publish_request(self, run: Run) -> bool:
        subject = _subject(self._bus, run)
        if is_delayed(run.terms):
            # It may be kept for months, and its worker reads the log anyway.
            return await delay(self._bus, subject, run.without_input())
        is_new = True
        try:
            await store_with_retries(self._bus, subject, run.encode(), self._headers)
        except Refused as refused:
            if not refused.is_duplicate:
                raise
            is_new = False
        # The process that published it first may have died before it created the queue.
        await self._queues.open(run.queue)
        return is_new


def _subject(bus: Bus, run: Run) -> str:
    terms = run.terms
    return bus.subjects.run(run.key, run.generation, terms.priority, terms.version or "")


async def publish_unconfirmed(bus: Bus, run: Run) -> None:
    """Publish a run's request without waiting for an ack, for a queue that exists.

    If it is lost, task state's sweep publishes it again.

    Raises:
        BusUnavailable: The connection is down, and the buffer for a reconnect is full.
    """
    headers = stating(bus.settings.log_version)
    await bus.publish(_subject(bus, run), run.without_input().encode(), headers=headers)


async def release(bus: Bus, key: TaskKey) -> None:
    """Have the queue deliver the task's run again at once: its worker is gone, or it sleeps.

    It keeps its place before runs that were not delivered yet. If it is to be delivered anyway, or
    is gone, nothing happens.

    Raises:
        BusUnavailable: The queue does not answer or does not exist.
    """
    stream = bus.streams.runs
    found = await get_message(bus, stream, {"last_by_subj": bus.subjects.runs_of_task(key)})
    if found is None:
        return
    subject = found["subject"]
    run = Run.read(bus.subjects, subject, headers_of(found), b64decode(found["data"]))
    consumer = run.queue.consumer
    delivered = (await consumer_info(bus, stream, consumer))["delivered"]["consumer_seq"]
    await bus.request(reply_subject(stream, consumer, found["seq"], delivered), nak(), _RELEASE)


async def until_gone(bus: Bus, key: TaskKey, generation: int, timeout: float) -> None:
    """Wait until the run request has left the queue, for at most `timeout` seconds.

    If the queue's leader does not answer, the query is repeated: an election may be in progress.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                if not await _is_queued(bus, key, generation):
                    return
                await asyncio.sleep(_LOOK_EVERY)


async def _is_queued(bus: Bus, key: TaskKey, generation: int) -> bool:
    query: Json = {"subjects_filter": bus.subjects.runs_of_task(key)}
    try:
        answer = await stream_info(bus, bus.streams.runs, query, bus.timing.leader)
    except BusUnavailable:
        return True
    queued = answer["state"].get("subjects") or {}
    # Its priority and version would be further tokens.
    run = bus.subjects.run(key, generation)
    return any(subject == run or subject.startswith(f"{run}.") for subject in queued)


@lru_cache(maxsize=1024)
def _span_template(stream: str, agent: str) -> SpanTemplate:
    attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": stream,
        "gen_ai.agent.name": agent,
    }
    return SpanTemplate(f"publish {stream}", SpanKind.PRODUCER, attributes)
