"""Taking messages out of a stream: fast, or so that their bytes are gone from the disk, too."""

import asyncio
from itertools import batched
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.model.entry import SEQUENCE
from headrace.model.errors import BusUnavailable

_TIMEOUT = 5.0
_AT_ONCE = 32
_BATCH = 512
_BATCH_BYTES = 4 * 1024 * 1024
_NO_MESSAGE = frozenset({10037, 10043, 10057})


async def purge(bus: Bus, stream: str, subject: str, before: int = 0) -> None:
    """Purge the messages on `subject` before stream sequence `before`; 0: all of them.

    NATS keeps their bytes in its files until it compacts the block that they lie in.

    Raises:
        BusUnavailable: it is not sure that they are gone.
    """
    query: dict[str, Any] = {"filter": subject}
    if before:
        query["seq"] = before
    await _ask(bus, f"STREAM.PURGE.{stream}", query)


async def erase(bus: Bus, stream: str, subject: str, before: int = 0) -> None:
    """Purge, and have NATS overwrite the bytes in its files first.

    Each message costs a request, so this is for single tasks.

    Raises:
        BusUnavailable: not all of it is erased.
    """
    after = 0
    while found := await _sequences(bus, stream, subject, after):
        after = found[-1]
        within = [one for one in found if not before or one < before]
        for some in batched(within, _AT_ONCE):
            deletions = (_ask(bus, f"STREAM.MSG.DELETE.{stream}", {"seq": one}) for one in some)
            await asyncio.gather(*deletions)
    # What the copy that was asked did not know of, the leader does.
    await purge(bus, stream, subject, before)


async def _sequences(bus: Bus, stream: str, subject: str, after: int) -> list[int]:
    query = {
        "batch": _BATCH,
        "max_bytes": _BATCH_BYTES,
        "seq": after + 1,
        "next_by_subj": subject,
    }
    return (await direct_get(bus, stream, query, _sequence)).messages


def _sequence(msg: Msg) -> int:
    return int((msg.headers or {})[SEQUENCE])


async def _ask(bus: Bus, operation: str, query: dict[str, Any]) -> None:
    subject = f"$JS.API.{operation}"
    msg = await bus.request(subject, orjson.dumps(query), _TIMEOUT)
    error = orjson.loads(msg.data).get("error")
    if error and error.get("err_code") not in _NO_MESSAGE:
        raise BusUnavailable(f"{subject}: {error.get('description')}")
