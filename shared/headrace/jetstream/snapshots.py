"""Snapshots of streams: JetStream's own form of a stream's messages, with their sequences.

A snapshot is of one moment, and the stream goes on meanwhile. Consumers are no part of it: the
services create theirs when they start.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.api import request, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import STATUS
from headrace.model.errors import BusUnavailable

type Json = dict[str, Any]

CHUNK = 128 * 1024
"""Bytes of a snapshot in one message."""

_SILENCE = 30.0
"""Seconds without a chunk after which a snapshot has failed."""

_INDEXING = 600.0
"""Seconds in which a server reads a restored stream."""


async def take_snapshot(bus: Bus, stream: str, write: Callable[[bytes], object]) -> Json:
    """Call `write` with each chunk of a stream's snapshot, and return what the server states of it.

    That has the stream's ``config``, and its ``state`` at the snapshot.

    Raises:
        Refused: There is no such stream, or its messages are damaged.
        BusUnavailable: JetStream does not answer, or the snapshot breaks off.
    """
    chunks = asyncio.Queue[Msg]()
    inbox = bus.connection.new_inbox()
    listening = await bus.subscribe(inbox, chunks.put)
    try:
        query = {
            "deliver_subject": inbox,
            "no_consumers": True,
            "chunk_size": CHUNK,
            # The server reads each message and compares its checksum first.
            "jsck": True,
        }
        answer = await until_answered(
            bus, lambda: request(bus, f"STREAM.SNAPSHOT.{stream}", query, _SILENCE)
        )
        while (chunk := await _next(chunks, stream)).data:
            write(chunk.data)
            if chunk.reply:
                # The server sends no more than a window of chunks that are not acknowledged.
                await bus.publish(chunk.reply, b"")
        _check_end(stream, chunk)
        return answer
    finally:
        await bus.unsubscribe(listening)


async def _next(chunks: asyncio.Queue[Msg], stream: str) -> Msg:
    try:
        return await asyncio.wait_for(chunks.get(), _SILENCE)
    except TimeoutError:
        raise BusUnavailable(f"the snapshot of {stream} breaks off") from None


def _check_end(stream: str, end: Msg) -> None:
    """Check that a snapshot is whole: its last message, which is empty, may have an error."""
    status = (end.headers or {}).get(STATUS, "")
    if status and not status.startswith("2"):
        raise BusUnavailable(f"the snapshot of {stream} breaks off: {status}")


async def restore_snapshot(
    bus: Bus, stream: str, config: Json, state: Json, chunks: Iterable[bytes]
) -> Json:
    """Create a stream from a snapshot, and return the server's ``state`` of it.

    `state` is that of the snapshot.

    Raises:
        Refused: The stream exists, or the server can't have one like it.
        BusUnavailable: JetStream does not answer.
    """
    query = {"config": config, "state": state}
    answer = await request(bus, f"STREAM.RESTORE.{stream}", query, _SILENCE)
    subject = str(answer["deliver_subject"])
    for chunk in chunks:
        _checked(subject, await bus.request(subject, chunk, _SILENCE))
    whole = _checked(subject, await bus.request(subject, b"", _INDEXING))
    restored: Json = whole["state"]
    return restored


def _checked(subject: str, msg: Msg) -> Json:
    answer: Json = orjson.loads(msg.data) if msg.data else {}
    if (error := answer.get("error")) is not None:
        raise Refused(subject, error)
    return answer
