"""What signs the webhooks of runs, read from their logs.

A call comes without credentials, and whoever knows a task's id can make up a URL. So until its
signature is checked, it costs no more reading than what the log has got since the call before.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.jetstream.connection import Bus
from headrace.log import find_generation, last_entry, replay
from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.step import StepRecord
from headrace.model.task import TaskKey
from headrace.model.wait import SIGNING_STEP

_KEPT = 1024
"""Maximum runs of which it is known how far they have been read."""


@dataclass(slots=True)
class _RunRead:
    run: int
    sequence: int = 0
    """Of the last entry that was read; 0: none was."""
    secret: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class WebhookSecrets:
    """The secrets of open runs."""

    def __init__(self, bus: Bus) -> None:
        """Read logs on `bus`."""
        self._bus = bus
        self._runs = OrderedDict[TaskKey, _RunRead]()

    async def of(self, key: TaskKey, run: int) -> str | None:
        """Return what signs the webhooks of the task's run; None: it has none, or has ended.

        Raises:
            BusUnavailable: The log does not answer.
        """
        last = await last_entry(self._bus, key)
        if last is None or last.stamp.run != run or last.ends_run:
            return None
        known = self._known(key, run)
        async with known.lock:
            if known.secret is None:
                await self._read(key, known, last)
        return known.secret

    def _known(self, key: TaskKey, run: int) -> _RunRead:
        known = self._runs.get(key)
        if known is None or known.run != run:
            known = self._runs[key] = _RunRead(run)
        self._runs.move_to_end(key)
        if len(self._runs) > _KEPT:
            self._runs.popitem(last=False)
        return known

    async def _read(self, key: TaskKey, known: _RunRead, last: Entry) -> None:
        """Read on to the secret, or else to the entry `last`."""
        try:
            after = known.sequence or await find_generation(self._bus, key, known.run, last)
            async for batch in replay(self._bus, key, after, last.sequence):
                for entry in batch:
                    known.sequence = entry.sequence
                    if (secret := _secret_in(entry)) is not None:
                        known.secret = secret
                        return
        except LogLost:
            return  # The run ends with its log.


def _secret_in(entry: Entry) -> str | None:
    stamp = entry.stamp
    if not stamp.attempt or stamp.step is None or SIGNING_STEP not in stamp.step:
        return None
    record = StepRecord.decode(stamp.step, entry.last_generation)
    if record is None or record.id != (SIGNING_STEP, SIGNING_STEP) or record.value is None:
        return None
    return str(json_text.decode(record.value))
