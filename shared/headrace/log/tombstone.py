"""Tombstones, which replace the log of a deleted or expired task and then expire.

A tombstone has no content. It is appended after the log's last entry by compare-and-set, so no
writer of that log can append any more. Then everything before it may be purged. Its time to live is
longer than a late writer can live.
"""

import asyncio
from typing import Literal

from headrace.jetstream.api import store
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import EXPECTED, TTL
from headrace.jetstream.purge import purge
from headrace.log.read import TOMBSTONE, last_stored
from headrace.model.entry import OWNER, VERSION
from headrace.model.errors import BusUnavailable, Fenced, LogFull
from headrace.model.task import TaskKey
from headrace.wait_for import ELECTION

_TIMEOUT = ELECTION
_PAUSE = 0.05

type Why = Literal["retention", "deleted"]


async def is_forgotten(bus: Bus, key: TaskKey) -> bool:
    """Return whether the task's log ends with a tombstone.

    Raises:
        BusUnavailable: No leader answers.
    """
    last = await last_stored(bus, key)
    return last is not None and last.is_tombstone


async def put_tombstone(  # noqa: PLR0917 - what a tombstone says, and where
    bus: Bus, key: TaskKey, owner: str, why: Why, seconds: float, after: int
) -> None:
    """Put a tombstone on the task's log for `seconds` seconds. Return when it is stored.

    As far as the caller knows, the log ended at stream sequence `after`; only messages that are
    not entries may follow. A full stream accepts the tombstone too: the log is purged first if
    there is no room for both.

    Raises:
        Fenced: The log continues: another task with the same id has begun there.
        BusUnavailable: It is not certain that the tombstone is stored.
    """
    subject = bus.subjects.event(key)
    headers = {
        VERSION: bus.settings.log_version,
        TOMBSTONE: why,
        OWNER: owner,
        TTL: f"{max(round(seconds), 1)}s",
    }
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIMEOUT
    error: BusUnavailable = BusUnavailable(f"{subject}: other writers keep appending")
    while loop.time() < deadline:
        try:
            await store(bus, subject, b"", bus.timing.ack, headers | {EXPECTED: str(after)})
        except Refused as refused:
            if refused.is_full:
                # The purge makes room for it. No other writer can start the log in between: the
                # full stream refuses that too, because a first entry is larger than a tombstone.
                error = LogFull(str(refused))
                await purge(bus, bus.streams.of_shard(key.shard), subject)
        except BusUnavailable as unknown:
            error = unknown
        else:
            return
        last = await last_stored(bus, key)
        if last is not None and last.is_tombstone:
            return
        if last is not None and last.entry is not None and not last.entry.ends_task:
            raise Fenced(f"the log of {key.task} has newer entries")
        after = last.sequence if last is not None else 0
        await asyncio.sleep(_PAUSE)
    raise error
