"""What callers may do, and how often: asked where a call comes to be (`call.py`), by no protocol.

Rates are bounded per owner and per tenant, over all gateways. Each gateway has a bucket per owner
and tenant, and takes from it what it serves. A few times a second it publishes what it took, and
the others take that too. So no request waits for anybody, and no gateway depends on one; for a
moment each of them may let through what all of them may.
"""

import asyncio
import logging
import math
import secrets
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import RequestsTaken
from headrace_gateway.refusals import NotPermitted, RateLimited
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.settings import GatewaySettings

_log = logging.getLogger(__name__)

PUBLISH_EVERY = 0.2
"""Seconds between two accounts of what this gateway has counted."""

_MINUTE = 60.0


class Account(Protocol):
    """A message of another gateway."""

    subject: str
    data: bytes


@dataclass(slots=True)
class RateBucket:
    """Requests that may come at once: up to a minute's worth, and more as time goes by."""

    per_minute: int
    left: float
    at: float
    """When `left` was right, in seconds of a monotonic clock."""

    def take(self, count: int, now: float) -> None:
        """Take requests, also those that are not there: others may have been faster."""
        self.fill(now)
        self.left = max(self.left - count, -float(self.per_minute))

    def fill(self, now: float) -> None:
        """Put in what time has brought."""
        brought = (now - self.at) * self.per_minute / _MINUTE
        self.left, self.at = min(self.left + brought, float(self.per_minute)), now

    def wait(self) -> float:
        """Return after how many seconds there is a request in it; 0: there is one."""
        return max(0.0, 1 - self.left) * _MINUTE / self.per_minute


class RateLimits:
    """What callers may still ask in this minute."""

    def __init__(self, bus: Bus, settings: GatewaySettings) -> None:
        """Bound what `settings` bound, with the other gateways on `bus`."""
        self._bus, self._id = bus, secrets.token_hex(4)
        self._per_owner = settings.owner_requests_per_minute
        self._per_tenant = settings.tenant_requests_per_minute
        self._buckets: dict[str, RateBucket] = {}
        self._taken = Counter[str]()
        self._publishing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to share what is counted, where anything is.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        if self._per_owner < 0 and self._per_tenant < 0:
            return
        await self._bus.subscribe(self._bus.subjects.rates(), self._on_others)
        self._publishing = keep_running(self._publish, "rate limits")

    async def stop(self) -> None:
        """Share no more."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)

    def take(self, caller: Caller) -> None:
        """Count one request of the caller's.

        Raises:
            RateLimited: its owner, or its tenant, has asked as often as it may; it is not counted.
        """
        asked = [
            (key, per_minute)
            for key, per_minute in (
                (f"{caller.tenant}.{caller.owner}", self._per_owner),
                (caller.tenant, self._per_tenant),
            )
            if per_minute >= 0
        ]
        now = time.monotonic()
        for key, per_minute in asked:
            bucket = self._bucket(key, per_minute, now)
            bucket.fill(now)
            if wait := bucket.wait():
                whose = "your tenant" if key == caller.tenant else "you"
                raise RateLimited(
                    f"{whose} may send {per_minute} requests a minute", math.ceil(wait)
                )
        for key, per_minute in asked:
            self._bucket(key, per_minute, now).take(1, now)
            self._taken[key] += 1

    def _bucket(self, key: str, per_minute: int, now: float) -> RateBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = RateBucket(per_minute, float(per_minute), now)
        return bucket

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(PUBLISH_EVERY)
            now = time.monotonic()
            for key, bucket in list(self._buckets.items()):
                bucket.fill(now)
                if bucket.left >= bucket.per_minute:
                    del self._buckets[key]
            if not self._taken:
                continue
            taken, self._taken = self._taken, Counter()
            account = RequestsTaken(gateway=self._id, taken=taken)
            with suppress(BusUnavailable):
                await self._bus.publish(self._bus.subjects.rates(), account.encode())

    async def _on_others(self, msg: Account) -> None:
        try:
            account = RequestsTaken.decode(msg.subject, msg.data)
        except UndecodableMessage as error:
            _log.warning("ignoring a malformed request count of another gateway: %s", error)
            return
        if account.gateway == self._id:
            return
        now = time.monotonic()
        for key, count in account.taken.items():
            per_minute = self._per_owner if "." in key else self._per_tenant
            if per_minute >= 0:
                self._bucket(key, per_minute, now).take(count, now)


_audit = logging.getLogger("headrace.audit")
"""Every request by which an operator reaches the tasks of others."""


_PUBLIC = frozenset({"GetAgentCard"})
"""What every caller may ask, as often as it likes: the same pages are there without a call."""


class Access:
    """The gate before every operation, once per request, whatever the protocol."""

    def __init__(self, rates: RateLimits) -> None:
        """Count requests against `rates`."""
        self._rates = rates

    def check(self, caller: Caller, agent: str, operation: str, task: str = "") -> None:
        """Let the caller carry out A2A's `operation` with the agent, with `task` if it names one.

        Raises:
            NotPermitted: its roles do not include that.
            RateLimited: it, or its tenant, asks too often.
        """
        if operation in _PUBLIC:
            return
        if not caller.may(agent, operation):
            raise NotPermitted(f"your roles do not include {operation} of agent {agent!r}")
        self._rates.take(caller)
        if caller.operates(agent, operation):
            _audit.info(
                "operator tenant=%s owner=%s operation=%s agent=%s task=%s",
                caller.tenant,
                caller.owner,
                operation,
                agent,
                task or "-",
            )
