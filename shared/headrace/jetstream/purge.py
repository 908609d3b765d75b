"""Removing messages from a stream: quickly, or with their bytes overwritten on disk."""

import asyncio
from itertools import batched

from nats.aio.msg import Msg

from headrace.jetstream.api import Json, delete_message, request, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SEQUENCE
from headrace.model.errors import BusUnavailable
from headrace.wait_for import ELECTION

_TIMEOUT = 5.0
_AT_ONCE = 32
_BATCH = 512
_BATCH_BYTES = 4 * 1024 * 1024


async def purge(
    bus: Bus, stream: str, subject: str, before: int = 0, timeout: float = ELECTION
) -> None:
    """Purge the messages on `subject` before stream sequence `before`; 0: all of them.

    NATS keeps their bytes in its files until it compacts the block that contains them.

    Raises:
        BusUnavailable: It is not certain after `timeout` seconds that they are gone.
    """
    query: Json = {"filter": subject}
    if before:
        query["seq"] = before
    once = min(_TIMEOUT, timeout)
    await until_answered(bus, lambda: request(bus, f"STREAM.PURGE.{stream}", query, once), timeout)


async def erase(bus: Bus, stream: str, subject: str, before: int = 0) -> None:
    """Like `purge`, but overwrite the messages' bytes in NATS's files first.

    Each message costs a request, so this is for single tasks.

    Raises:
        BusUnavailable: Not all messages are erased.
    """
    after = 0
    while found := await _sequences(bus, stream, subject, after):
        after = found[-1]
        within = [one for one in found if not before or one < before]
        for some in batched(within, _AT_ONCE):
            await asyncio.gather(*(_delete(bus, stream, one) for one in some))
    # The leader may have messages that the queried replica has not.
    await purge(bus, stream, subject, before)


async def _delete(bus: Bus, stream: str, sequence: int) -> bool:
    return await until_answered(bus, lambda: delete_message(bus, stream, sequence))


async def _sequences(bus: Bus, stream: str, subject: str, after: int) -> list[int]:
    query = {
        "batch": _BATCH,
        "max_bytes": _BATCH_BYTES,
        "seq": after + 1,
        "next_by_subj": subject,
    }

    async def ask() -> list[int]:
        answer = await direct_get(bus, stream, query, _sequence)
        if not answer.messages and not answer.complete:
            # A purge now would leave their bytes.
            raise BusUnavailable(f"no copy of {stream} answers")
        return answer.messages

    return await until_answered(bus, ask)


def _sequence(msg: Msg) -> int:
    return int((msg.headers or {})[SEQUENCE])
