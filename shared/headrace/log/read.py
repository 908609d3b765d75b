"""Reading a log: its last entry at the leader, and batches by direct get.

A follower of a replicated stream may answer a direct get stale, or not at all. So a replay is
told by the caller how far the leader said the log goes, and reads on until it is there.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.bus import Bus
from headrace.entry import Entry
from headrace.errors import BusUnavailable, LogLost
from headrace.log.stored import Stored, from_leader, from_message
from headrace.task import TaskKey

LEADER_TIMEOUT = 2.0
"""Seconds to wait for the leader's answer, once."""

BATCH_TIMEOUT = 0.5
"""Seconds of silence after which a direct get is asked again: a frozen follower costs that much."""

BATCH = 512
"""Messages asked for in one direct get."""

BATCH_BYTES = 4 * 1024 * 1024
"""Bytes asked for in one direct get, far below what makes a subscription a slow consumer."""

PATIENCE = 30.0
"""Seconds without progress after which a replay gives up."""

_NOT_FOUND = 10037
_PAUSE = 0.1


async def last_stored(bus: Bus, key: TaskKey, patience: float = 5.0) -> Stored | None:
    """Return the last message on the log's subject as the leader knows it; None: there is none.

    Raises:
        BusUnavailable: no leader answered within `patience` seconds.
    """
    query = {"last_by_subj": bus.subjects.event(key)}
    message = await _ask_leader(bus, key, query, patience)
    return None if message is None else from_leader(message)


async def last_entry(bus: Bus, key: TaskKey, patience: float = 5.0) -> Entry | None:
    """Return the log's last entry as the leader knows it; None: the log is empty.

    Raises:
        BusUnavailable: no leader answered within `patience` seconds.
    """
    stored = await last_stored(bus, key, patience)
    if stored is None or stored.entry is not None:
        return stored.entry if stored else None
    # Rare: the last message is no entry. The one before it is found from the start.
    entries = [entry async for batch in replay(bus, key, 0, stored.sequence) for entry in batch]
    return entries[-1] if entries else None


async def next_stored(bus: Bus, key: TaskKey, after: int, patience: float) -> Stored | None:
    """Return the first message on the log's subject after sequence `after`, from the leader.

    Raises:
        BusUnavailable: no leader answered within `patience` seconds.
    """
    query = {"seq": after + 1, "next_by_subj": bus.subjects.event(key)}
    message = await _ask_leader(bus, key, query, patience)
    return None if message is None else from_leader(message)


async def _ask_leader(
    bus: Bus, key: TaskKey, query: dict[str, Any], patience: float
) -> dict[str, Any] | None:
    subject = f"$JS.API.STREAM.MSG.GET.{bus.streams.of_shard(key.shard)}"
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            return await _ask_leader_once(bus, subject, orjson.dumps(query))
        except BusUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_PAUSE)


async def _ask_leader_once(bus: Bus, subject: str, query: bytes) -> dict[str, Any] | None:
    answer = orjson.loads((await bus.request(subject, query, LEADER_TIMEOUT)).data)
    if "message" in answer:
        message: dict[str, Any] = answer["message"]
        return message
    if answer.get("error", {}).get("err_code") == _NOT_FOUND:
        return None
    raise BusUnavailable(f"{subject}: {answer.get('error')}")


async def replay(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> AsyncIterator[list[Entry]]:
    """Yield the entries after stream sequence `after` up to `head`, in order, in batches.

    `head` is a sequence on this subject that the leader reported. Nothing is yielded twice, and
    messages that do not parse are stepped over. `batch_bytes` bounds what is held at a time.

    Raises:
        LogLost: the messages up to `head` are gone.
        BusUnavailable: no progress for `PATIENCE` seconds.
    """
    async for batch in replay_stored(bus, key, after, head, batch_bytes=batch_bytes):
        if entries := [stored.entry for stored in batch if stored.entry is not None]:
            yield entries


async def replay_stored(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> AsyncIterator[list[Stored]]:
    """Like `replay`, with the messages that do not parse left in."""
    loop = asyncio.get_running_loop()
    progress = loop.time()
    while after < head:
        got = await get_batch(bus, key, after + 1, max_bytes=batch_bytes)
        batch = [stored for stored in got if stored.sequence > after]
        if batch:
            after, progress = batch[-1].sequence, loop.time()
            yield [stored for stored in batch if stored.sequence <= head]
        else:
            await _check_patience(bus, key, head, loop.time() - progress)


async def _check_patience(bus: Bus, key: TaskKey, head: int, waited: float) -> None:
    last = await last_stored(bus, key, PATIENCE)
    if last is None or last.sequence < head:
        raise LogLost(f"the log of {key.task} ends before sequence {head}")
    if waited > PATIENCE:
        raise BusUnavailable(f"no copy of {key.task}'s log answered for {PATIENCE:g} s")
    await asyncio.sleep(_PAUSE)


async def get_batch(
    bus: Bus, key: TaskKey, start: int, *, size: int = BATCH, max_bytes: int = BATCH_BYTES
) -> list[Stored]:
    """Return up to `size` messages of the log from stream sequence `start` on, from any copy.

    What arrived before the copy fell silent is returned; an empty list says that this copy knows
    of nothing there, or did not answer.
    """
    query = {
        "batch": size,
        "seq": start,
        "next_by_subj": bus.subjects.event(key),
        "max_bytes": max_bytes,
    }
    collected = _Collected()
    inbox = bus.connection.new_inbox()
    subscription = await bus.connection.subscribe(inbox, cb=collected.receive)
    try:
        await bus.connection.publish(
            f"$JS.API.DIRECT.GET.{bus.streams.of_shard(key.shard)}",
            orjson.dumps(query),
            reply=inbox,
        )
        await collected.wait()
    finally:
        await subscription.unsubscribe()
    return collected.stored


class _Collected:
    """The answer to one batched direct get, as it arrives on an inbox of its own."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self._done = asyncio.Event()
        self._heard = False

    async def receive(self, msg: Msg) -> None:
        self._heard = True
        if "Status" in (msg.headers or {}):
            # 204 ends a batch, 404 says there is nothing, 408 and 503 that nobody can answer.
            self._done.set()
            return
        self.stored.append(from_message(msg))

    async def wait(self) -> None:
        while not self._done.is_set():
            self._heard = False
            try:
                await asyncio.wait_for(self._done.wait(), BATCH_TIMEOUT)
            except TimeoutError:
                if not self._heard:
                    return


async def find_generation(bus: Bus, key: TaskKey, generation: int, last: Entry) -> int:
    """Return a stream sequence after which the entry with `generation` is the next one.

    Entries hold several events each, so generations are no sequences: this searches the stream
    by halves, each step one get (about 0.3 ms), never reading the log from its start. `last` is
    the log's last entry, and `generation` is at most its last.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the stream does not answer.
    """
    older, newest = 0, last.sequence
    while older < newest:
        middle = (older + newest) // 2
        entry = await _entry_after(bus, key, middle)
        if entry is None or entry.generation > generation:
            newest = middle
        elif entry.last_generation < generation:
            older = entry.sequence
        else:
            return entry.sequence - 1
    raise LogLost(f"generation {generation} of {key.task} is gone")


async def _entry_after(bus: Bus, key: TaskKey, sequence: int) -> Entry | None:
    while True:
        batch = await get_batch(bus, key, sequence + 1, size=1)
        # An empty answer may be a stale follower's; only the leader can say that there is nothing.
        stored = batch[0] if batch else await next_stored(bus, key, sequence, LEADER_TIMEOUT)
        if stored is None or stored.entry is not None:
            return stored.entry if stored else None
        sequence = stored.sequence
