"""What was sent under which Idempotency-Key: a bucket that all gateways share.

A record is made by compare-and-set, so of many gateways that are sent the same thing at once one
makes it, and all others are shown what it made.
"""

import asyncio
from base64 import b64decode
from dataclasses import dataclass

import orjson

from headrace.bus import Bus
from headrace.errors import BusUnavailable
from headrace.messages import BusMessage

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_TTL = "Nats-TTL"
_NOT_FOUND = 10037
_ATTEMPT = 2.0
_PATIENCE = 5.0
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


class SentRecords:
    """The bucket's records, by name (a subject token)."""

    def __init__(self, bus: Bus, seconds: int) -> None:
        """Keep records for so long."""
        self._bus, self._seconds = bus, seconds
        self._stream = f"KV_{bus.streams.idempotency}"

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
        query = orjson.dumps({"last_by_subj": self._subject(name)})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            try:
                return await self._ask(query)
            except BusUnavailable:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    def _subject(self, name: str) -> str:
        return f"$KV.{self._bus.streams.idempotency}.{name}"

    async def _put(self, name: str, sent: Sent, behind: int) -> int | BusUnavailable:
        """Return the record's sequence, or why it is unknown whether it was made."""
        subject = self._subject(name)
        headers = {_EXPECTED: str(behind), _TTL: str(self._seconds)}
        try:
            msg = await self._bus.request(subject, sent.encode(), _ATTEMPT, headers)
            ack = orjson.loads(msg.data)
        except BusUnavailable as trouble:
            return trouble
        if "error" in ack:
            return BusUnavailable(f"{subject}: {ack['error'].get('description')}")
        return int(ack["seq"])

    async def _ask(self, query: bytes) -> Kept | None:
        subject = f"$JS.API.STREAM.MSG.GET.{self._stream}"
        answer = orjson.loads((await self._bus.request(subject, query, _ATTEMPT)).data)
        if answer.get("error", {}).get("err_code") == _NOT_FOUND:
            return None
        if "message" not in answer:
            raise BusUnavailable(f"{subject}: {answer.get('error')}")
        message = answer["message"]
        data = b64decode(message.get("data") or "")
        return Kept(Sent.decode(message["subject"], data), int(message["seq"]))
