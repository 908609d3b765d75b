"""The last sequences of many logs at once, as their leaders know them."""

import asyncio
from collections.abc import Iterable
from itertools import batched, groupby

import orjson
from nats.aio.msg import Msg

from headrace.bus import Bus
from headrace.entry import SEQUENCE
from headrace.errors import BusUnavailable
from headrace.log.read import BATCH_TIMEOUT, LEADER_TIMEOUT, last_stored
from headrace.subjects import stream_of_shard
from headrace.task import TaskKey

FEW = 8
"""Up to so many logs of a stream, the leader is asked for each; above, one multi_last asks."""

_MULTI_MAX = 512
_SUBJECT = "Nats-Subject"
_UP_TO = "Nats-UpTo-Sequence"


async def last_sequences(bus: Bus, keys: Iterable[TaskKey]) -> dict[TaskKey, int]:
    """Return each log's last sequence; 0: it is empty.

    Raises:
        BusUnavailable: a leader does not answer.
    """
    found: dict[TaskKey, int] = {}
    by_stream = sorted(keys, key=lambda key: stream_of_shard(key.shard))
    for stream, group in groupby(by_stream, key=lambda key: stream_of_shard(key.shard)):
        for some in batched(group, _MULTI_MAX):
            found |= await _of_stream(bus, bus.streams.events(stream), some)
    return found


async def _of_stream(bus: Bus, stream: str, keys: tuple[TaskKey, ...]) -> dict[TaskKey, int]:
    if len(keys) > FEW and (found := await _multi_last(bus, stream, keys)) is not None:
        return found
    sequences = await asyncio.gather(*(_one(bus, key) for key in keys))
    return dict(zip(keys, sequences, strict=True))


async def _one(bus: Bus, key: TaskKey) -> int:
    stored = await last_stored(bus, key, patience=LEADER_TIMEOUT)
    return 0 if stored is None else stored.sequence


async def _multi_last(
    bus: Bus, stream: str, keys: tuple[TaskKey, ...]
) -> dict[TaskKey, int] | None:
    """Ask one copy for all; None: it lags behind the leader, so its answer proves nothing."""
    head = await _leader_head(bus, stream)
    subjects = {bus.subjects.event(key): key for key in keys}
    answer = _MultiLast()
    inbox = bus.connection.new_inbox()
    subscription = await bus.connection.subscribe(inbox, cb=answer.receive)
    try:
        query = orjson.dumps({"multi_last": list(subjects)})
        await bus.connection.publish(f"$JS.API.DIRECT.GET.{stream}", query, reply=inbox)
        async with asyncio.timeout(BATCH_TIMEOUT + len(keys) / 1000):
            await answer.done.wait()
    except TimeoutError:
        return None
    finally:
        await subscription.unsubscribe()
    if answer.up_to < head:
        return None
    return {key: answer.sequences.get(subject, 0) for subject, key in subjects.items()}


async def _leader_head(bus: Bus, stream: str) -> int:
    answer = orjson.loads(
        (await bus.request(f"$JS.API.STREAM.INFO.{stream}", b"", LEADER_TIMEOUT)).data
    )
    if "state" not in answer:
        raise BusUnavailable(f"{stream}: {answer.get('error')}")
    return int(answer["state"]["last_seq"])


class _MultiLast:
    """The answer to a multi_last request; in it Nats-Last-Sequence is not the subject's."""

    def __init__(self) -> None:
        self.sequences: dict[str, int] = {}
        self.up_to = -1
        self.done = asyncio.Event()

    async def receive(self, msg: Msg) -> None:
        headers = msg.headers or {}
        if _UP_TO in headers:
            self.up_to = int(headers[_UP_TO])
        if "Status" in headers:
            self.done.set()
        elif SEQUENCE in headers:
            self.sequences[headers[_SUBJECT]] = int(headers[SEQUENCE])
