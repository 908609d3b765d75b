"""What was sent under which Idempotency-Key: a bucket that all gateways share.

A record is made by compare-and-set, so of many gateways that are sent the same thing at once one
makes it, and all others are shown what it made.
"""

import asyncio
from dataclasses import dataclass, field

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, Moved
from headrace.model.errors import BusUnavailable
from headrace.model.messages import BusMessage
from headrace.wait_for import ELECTION

_PATIENCE = ELECTION
_PAUSE = 0.05


class Sent(BusMessage):
    """One request, and where what it asks for is or is to be."""

    fingerprint: str
    """Hash of the request: another one may not use the key."""
    task: str
    context: str
    leg: int
    """Generation of the input."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record as it is in the bucket."""

    sent: Sent
    sequence: int
    """Of the bucket's stream: what a change of the record expects."""
    age: float = field(default=0.0, compare=False)
    """Seconds since it was made."""


class SentRecords:
    """The bucket's records, by name (a subject token)."""

    def __init__(self, bus: Bus, seconds: int) -> None:
        """Keep records for so long."""
        self._bucket, self._seconds = Bucket(bus, bus.streams.idempotency), seconds

    async def claim(self, name: str, sent: Sent, *, behind: int = 0) -> Kept:
        """Make the record, or change the one at sequence `behind`; return the one that is there.

        That is another one if somebody else was first.

        Raises:
            BusUnavailable: the bucket does not answer, or takes no more.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            outcome = await self._put(name, sent, behind)
            if isinstance(outcome, int):
                return Kept(sent, outcome)
            # Refused or unknown: whatever is there now decides, be it this very record.
            kept = await self.find(name)
            if kept is not None and kept.sequence != behind:
                return kept
            if kept is None and behind:
                behind = 0  # it expired meanwhile
            elif loop.time() > deadline:
                raise outcome
            await asyncio.sleep(_PAUSE)

    async def find(self, name: str) -> Kept | None:
        """Return the record of that name as the leader knows it; None: there is none.

        Raises:
            BusUnavailable: no leader answers.
        """
        found = await self._bucket.get(name)
        if found.data is None:
            return None
        return Kept(Sent.decode(f"record {name}", found.data), found.sequence, found.age)

    async def _put(self, name: str, sent: Sent, behind: int) -> int | BusUnavailable:
        """Return the record's sequence, or why it is unknown whether it was made."""
        try:
            return await self._bucket.put(name, sent.encode(), behind, seconds=self._seconds)
        except BusUnavailable as trouble:
            return trouble
        except Moved as moved:
            return BusUnavailable(str(moved))
