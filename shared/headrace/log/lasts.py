"""The last sequences of many logs at once, as their leaders know them."""

import asyncio
from collections.abc import Iterable
from itertools import batched, groupby

from nats.aio.msg import Msg

from headrace.jetstream.api import LEADER_TIMEOUT, stream_state
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SEQUENCE, SUBJECT
from headrace.log.read import last_stored
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey

FEW = 8
"""Up to so many logs of a stream, the leader is asked for each; above, one multi_last asks."""

_MULTI_MAX = 512


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
    """Ask one copy for all; None: its answer is partial or behind the leader and proves nothing."""
    head = (await stream_state(bus, stream)).last
    subjects = {bus.subjects.event(key): key for key in keys}
    answer = await direct_get(bus, stream, {"multi_last": list(subjects)}, _subject_and_sequence)
    if not answer.complete or answer.pending or answer.up_to < head:
        return None
    found = dict(answer.messages)
    return {key: found.get(subject, 0) for subject, key in subjects.items()}


def _subject_and_sequence(msg: Msg) -> tuple[str, int]:
    headers = msg.headers or {}
    return headers[SUBJECT], int(headers[SEQUENCE])
