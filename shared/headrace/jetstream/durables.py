"""The durable consumers of the bus contract: of queues of runs, webhooks and firings.

A consumer is created when it is needed; existing ones stay as their operator configured them.
Services refuse a consumer that violates the contract, and an operator repairs it with `repair`.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Iterator

from nats.js import api

from headrace.jetstream.api import Json, request, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, consumers
from headrace.jetstream.errors import ErrorCode, Refused, translated
from headrace.jetstream.streams import Difference, Effect, differences
from headrace.model.errors import StreamsDiffer
from headrace.model.queues import RunQueue
from headrace.model.subjects import Subjects

ACK_WAIT = 4.0
"""Seconds without a heartbeat after which a run goes to another worker."""

PUSH_ACK_WAIT = 9.0
"""Seconds without a heartbeat after which a webhook's message is delivered again."""

FIRING_ACK_WAIT = 30.0
"""Seconds after which a schedule's firing that a dead replica took is delivered again."""

DUE_RUN_ACK_WAIT = 10.0
"""Seconds after which a delayed run that a dead replica took is delivered again."""

_MAX_ACK_PENDING = 100_000
_CONTRACT = ("filter_subject", "ack_policy", "ack_wait", "max_deliver")
_HASH = re.compile(r"[0-9a-f]{64}")
_FIXED = {"ack_policy"}
"""Settings that JetStream can't change on an existing consumer."""


def of_runs(subjects: Subjects, queue: RunQueue) -> api.ConsumerConfig:
    """Return the consumer of the queue's runs."""
    return api.ConsumerConfig(
        durable_name=queue.consumer,
        filter_subject=subjects.runs_of_agent(
            queue.agent, queue.tenant, queue.priority, queue.version
        ),
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT,
        # Attempts are counted in the log; with a maximum here, a run could be stuck for ever.
        max_deliver=-1,
        max_ack_pending=_MAX_ACK_PENDING,
    )


def of_pushes(subjects: Subjects, number: int) -> api.ConsumerConfig:
    """Return the consumer of webhook deliveries for tasks in event stream `number`."""
    return api.ConsumerConfig(
        durable_name=f"push-{number}",
        filter_subject=subjects.pushes(number),
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=PUSH_ACK_WAIT,
        max_deliver=-1,
        max_ack_pending=-1,
    )


def of_firings(subjects: Subjects, ack_wait: float = FIRING_ACK_WAIT) -> api.ConsumerConfig:
    """Return the consumer of schedules' firings."""
    return _of_fired("firings", subjects.firing("*", "*", "*"), ack_wait)


def of_due_runs(subjects: Subjects) -> api.ConsumerConfig:
    """Return the consumer of delayed runs that are due."""
    return _of_fired("due-runs", subjects.due_runs(), DUE_RUN_ACK_WAIT)


def _of_fired(name: str, pattern: str, ack_wait: float) -> api.ConsumerConfig:
    return api.ConsumerConfig(
        durable_name=name,
        filter_subject=pattern,
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ack_wait,
        max_deliver=-1,
        # Firings that wait for a task must not stop those of other schedules.
        max_ack_pending=-1,
    )


async def ensure_consumer(
    bus: Bus, stream: str, config: api.ConsumerConfig, timeout: float = 5.0
) -> None:
    """Create a durable consumer if it is missing; don't change an existing one.

    Raises:
        StreamsDiffer: it exists and violates the contract.
        BusUnavailable: JetStream does not answer, or refuses.
    """
    try:
        await _put(bus, stream, config.as_dict(), "create", timeout)
    except Refused as refused:
        if refused.number not in {ErrorCode.CONSUMER_ACTIVE, ErrorCode.CONSUMER_EXISTS}:
            raise
    else:
        return
    found = (await consumer_info(bus, stream, str(config.durable_name), timeout))["config"]
    if broken := [str(one) for one in _differing(stream, config, found)]:
        raise StreamsDiffer("\n  ".join(["a consumer differs from the bus contract:", *broken]))


async def contract_differences(bus: Bus) -> list[Difference]:
    """Return how streams, buckets and consumers differ from the contract and the settings.

    Raises:
        BusUnavailable: JetStream does not answer.
    """

    async def look() -> list[Difference]:
        with translated():
            found = await differences(bus.js, bus.settings)
        return found + await consumer_differences(bus)

    return await until_answered(bus, look)


async def consumer_differences(bus: Bus) -> list[Difference]:
    """Return how existing consumers violate the contract.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    return [
        one
        async for stream, wanted, found in _declared(bus)
        for one in _differing(stream, wanted, found)
    ]


async def repair(bus: Bus) -> list[Difference]:
    """Change consumers that violate the contract, and return the changes; deliveries continue.

    Raises:
        StreamsDiffer: a setting can't be changed in place; that consumer was not changed.
        BusUnavailable: JetStream does not answer, or refuses.
    """
    done = list[Difference]()
    async for stream, wanted, found in _declared(bus):
        broken = list(_differing(stream, wanted, found))
        if fixed := [str(one) for one in broken if one.effect is Effect.IMPOSSIBLE]:
            raise StreamsDiffer("\n  ".join(["a consumer can't be changed in place:", *fixed]))
        if broken:
            config = found | {one.setting: one.wanted for one in broken}
            await _put(bus, stream, config, "update")
            done += broken
    return done


async def _declared(bus: Bus) -> AsyncIterator[tuple[str, api.ConsumerConfig, Json]]:
    """Yield every existing consumer: its stream, the contract's configuration, and its own."""
    streams, subjects = bus.streams, bus.subjects
    for found in await _list(bus, streams.runs):
        if (queue := _queue_of(subjects, found)) is not None:
            yield streams.runs, of_runs(subjects, queue), found
    pushing = [of_pushes(subjects, number) for number in range(bus.settings.event_streams)]
    fired = [of_firings(subjects), of_due_runs(subjects)]
    for stream, fixed in ((streams.pushes, pushing), (streams.schedules, fired)):
        existing = {one.get("durable_name"): one for one in await _list(bus, stream)}
        for wanted in fixed:
            if (known := existing.get(wanted.durable_name)) is not None:
                yield stream, wanted, known


def _queue_of(subjects: Subjects, found: Json) -> RunQueue | None:
    """Return the queue of the consumer with that name; None: it can't be determined."""
    name = found.get("durable_name")
    if not name:
        return None
    queue = RunQueue(*name.split("@")[:4])
    tenant = str(found.get("filter_subject", "")).removeprefix(f"{subjects.prefix}.run.")
    tenant = tenant.partition(".")[0]
    # The name has the hash of a long tenant; only the filter has the tenant itself.
    if hashlib.sha256(tenant.encode()).hexdigest() == queue.tenant:
        return RunQueue(queue.agent, tenant, queue.priority, queue.version)
    is_hash = _HASH.fullmatch(queue.tenant) is not None
    return queue if queue.consumer == name and (tenant == queue.tenant or not is_hash) else None


async def _list(bus: Bus, stream: str) -> list[Json]:
    try:
        return [one["config"] for one in await consumers(bus, stream)]
    except Refused as refused:
        if refused.number != ErrorCode.STREAM_NOT_FOUND:
            raise
        return []


async def _put(bus: Bus, stream: str, config: Json, action: str, timeout: float = 5.0) -> None:
    query = {"stream_name": stream, "config": config, "action": action}
    await request(bus, f"CONSUMER.DURABLE.CREATE.{stream}.{config['durable_name']}", query, timeout)


def _differing(stream: str, config: api.ConsumerConfig, found: Json) -> Iterator[Difference]:
    name, wanted = f"{stream}/{config.durable_name}", config.as_dict()
    for setting in _CONTRACT:
        if found.get(setting) != wanted[setting]:
            is_fixed = setting in _FIXED
            effect = Effect.IMPOSSIBLE if is_fixed else Effect.CHANGE
            removing = (
                f"nats consumer rm {stream} {config.durable_name} (a service creates it again)"
            )
            remedy = removing if is_fixed else ""
            yield Difference(name, effect, setting, found.get(setting), wanted[setting], "", remedy)
