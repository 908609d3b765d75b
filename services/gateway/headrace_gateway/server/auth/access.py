"""Permissions and rate limits of callers, checked where a call is created (`call.py`).

Rates are limited per owner and per tenant, over all gateways. Each gateway has a bucket per owner
and tenant, and takes from it for each request. A few times a second it publishes how much it took,
and the other gateways take the same from theirs. So no request waits, and no gateway depends on
another. For a moment each gateway may let through the full limit.
"""

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.messages import CoreMessage, RequestsTaken
from headrace.tasks.quotas import LimitWarnings, QuotaWarning
from headrace_gateway.refusals import NotPermitted, RateLimited
from headrace_gateway.server.auth.audit import AuditLog
from headrace_gateway.server.auth.caller import ANY_AGENT, OF_OPERATORS, Caller
from headrace_gateway.server.open_requests import name_operation, open_request
from headrace_gateway.settings import GatewaySettings

INTERVAL = 0.2
"""Seconds between two messages with this gateway's counts."""

_MINUTE = 60.0


@dataclass(slots=True)
class RateBucket:
    """A token bucket: holds up to a minute's requests, and refills over time."""

    per_minute: int
    """At least 1."""
    left: float
    at: float
    """When `left` was computed, in seconds of a monotonic clock."""

    def spend(self, count: int, now: float) -> None:
        """Spend `count` requests, even below zero: other gateways may have used the same ones."""
        self.fill(now)
        self.left = max(self.left - count, -float(self.per_minute))

    def fill(self, now: float) -> None:
        """Refill the bucket for the time since the last update."""
        brought = (now - self.at) * self.per_minute / _MINUTE
        self.left, self.at = min(self.left + brought, float(self.per_minute)), now

    def wait(self) -> float:
        """Return the seconds until a request is available; 0 if one is."""
        return max(0.0, 1 - self.left) * _MINUTE / self.per_minute


_AGENT = ":"
"""What an agent's key begins with; tokens of tenants and owners don't contain it."""


class RateLimits:
    """Limits the requests of callers per minute."""

    def __init__(
        self,
        bus: Bus,
        settings: GatewaySettings,
        interval: float = INTERVAL,
        warn: Callable[[QuotaWarning], None] = lambda _: None,
    ) -> None:
        """Apply the limits in `settings`, together with the other gateways on `bus`.

        Counts are shared every `interval` seconds. `warn` is called in the task of each request
        that is accepted although a limit of its owner or tenant is near. An agent's, which all
        tenants use together, is only logged and counted.
        """
        self._warnings = LimitWarnings[str]((_OF_OWNER, _OF_TENANT), warn, (_OF_AGENT,))
        self._bus, self._id, self._interval = bus, secrets.token_hex(4), interval
        self._per_owner = settings.owner_requests_per_minute
        self._per_tenant = settings.tenant_requests_per_minute
        self._per_agent = settings.agent_requests_per_minute
        self.are_set = max(self._per_owner, self._per_tenant, self._per_agent) >= 0
        """Whether any rate is limited."""
        self._buckets: dict[str, RateBucket] = {}
        self._taken = Counter[str]()
        self._publishing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to share counts with other gateways, if any rate is limited.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        if not self.are_set:
            return
        await self._bus.subscribe(self._bus.subjects.rates(), self._on_others)
        self._publishing = keep_running(self._publish, "rate limits")

    async def stop(self) -> None:
        """Stop sharing counts."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)

    def count(self, caller: Caller, agent: str = "") -> None:
        """Count one request of the caller, to `agent` if it is to one.

        Raises:
            RateLimited: the owner, the tenant or the agent has reached its limit; the request is
                not counted.
        """
        if not self.are_set:
            return
        limits, now = self._limits(caller, agent), time.monotonic()
        self._check(limits, now)
        for key, per_minute in limits:
            bucket = self._bucket(key, per_minute, now)
            used = round(per_minute - bucket.left)
            self._warnings.look(*_names_of(key), used, per_minute)
            bucket.spend(1, now)
            self._taken[key] += 1

    def check(self, caller: Caller, agent: str = "") -> None:
        """Check that `take` would count a request of the caller; counts nothing.

        Raises:
            RateLimited: as `take`.
        """
        self._check(self._limits(caller, agent), time.monotonic())

    def _limits(self, caller: Caller, agent: str) -> list[tuple[str, int]]:
        """Return the keys whose rates are limited, and their requests per minute."""
        keys = [f"{caller.tenant}.{caller.owner}", caller.tenant]
        if agent:
            keys.append(f"{_AGENT}{agent}")
        return [(key, limit) for key in keys if (limit := self._limit(key)) >= 0]

    def _check(self, limits: list[tuple[str, int]], now: float) -> None:
        for key, per_minute in limits:
            bucket = self._buckets.get(key)
            if bucket is None:
                continue  # A full one. A client may name any agent, so it is not kept.
            bucket.fill(now)
            if wait := bucket.wait():
                raise RateLimited(_refusal(key, per_minute), math.ceil(wait))

    def _limit(self, key: str) -> int:
        """Return the requests per minute for what `key` names; negative: any number."""
        if key.startswith(_AGENT):
            return self._per_agent
        return self._per_owner if "." in key else self._per_tenant

    def _bucket(self, key: str, per_minute: int, now: float) -> RateBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = RateBucket(per_minute, float(per_minute), now)
        return bucket

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self._drop_full_buckets()
            if not self._taken:
                continue
            taken, self._taken = self._taken, Counter()
            account = RequestsTaken(gateway=self._id, taken=taken)
            with suppress(BusUnavailable):
                await self._bus.publish(self._bus.subjects.rates(), account.encode())

    def _drop_full_buckets(self) -> None:
        now = time.monotonic()
        for key, bucket in list(self._buckets.items()):
            bucket.fill(now)
            if bucket.left >= bucket.per_minute:
                del self._buckets[key]
                self._warnings.forget(*_names_of(key))

    async def _on_others(self, msg: CoreMessage) -> None:
        account = RequestsTaken.decode_or_ignore(msg, "request count of another gateway")
        if account is None or account.gateway == self._id:
            return
        now = time.monotonic()
        for key, count in account.taken.items():
            if (per_minute := self._limit(key)) >= 0:
                self._bucket(key, per_minute, now).spend(count, now)


_OF_OWNER, _OF_TENANT, _OF_AGENT = "requests-owner", "requests-tenant", "requests-agent"
"""Names of the limits in warnings."""


def _names_of(key: str) -> tuple[str, str]:
    """Return the name of the limit of `key`, and whose it is."""
    if key.startswith(_AGENT):
        return _OF_AGENT, key.removeprefix(_AGENT)
    return _OF_OWNER if "." in key else _OF_TENANT, key


def _refusal(key: str, per_minute: int) -> str:
    rate = f"{per_minute} requests per minute"
    if key.startswith(_AGENT):
        agent = key.removeprefix(_AGENT)
        return f"all clients together may send {rate} to agent {agent}; try again later"
    return f"{'you' if '.' in key else 'your tenant'} may send {rate}; try again later"


_PUBLIC = frozenset({"GetAgentCard"})
"""Operations open to every caller, without a rate limit: the same pages are public over HTTP."""


@dataclass(frozen=True, slots=True)
class CallerRate:
    """What a request of a caller counts against until its operation is known."""

    rates: RateLimits
    caller: Caller
    agent: str
    """The agent that the request names besides its body; empty: none, or not known yet."""

    def check(self) -> None:
        """Check that the caller may send a request to the agent; counts nothing.

        Raises:
            RateLimited: the owner, the tenant or the agent has reached its limit.
        """
        self.rates.check(self.caller, self.agent)

    def count(self) -> None:
        """Count a request whose operation can't be read: to no agent.

        Raises:
            RateLimited: the owner or the tenant has reached its limit.
        """
        self.rates.count(self.caller)


class Access:
    """Checks every operation once per request, whatever the protocol.

    Each request of a known caller counts once against its rates, unless its roles deny it or its
    operation is public: where its operation is checked, or, if it ends with an error before that,
    at its end. So a body that nobody can read is no way around a limit.
    """

    def __init__(self, rates: RateLimits, audit: AuditLog) -> None:
        """Count requests against `rates`, and record them in `audit`."""
        self._rates, self._audit = rates, audit
        self.counts = rates.are_set
        """Whether requests are counted: any rate is limited."""

    def expect(self, caller: Caller, agent: str = "") -> None:
        """Count the current task's request at its end, if nothing counts it before.

        At that time it may also raise `RateLimited`, as may `OpenRequest.check_rate` before.
        `agent` is the one that the request names besides its body.
        """
        if (request := open_request()) is not None:
            request.rate = CallerRate(self._rates, caller, agent)

    def check_rate(self, caller: Caller, agent: str) -> None:
        """Check that the caller may send a request to the agent; counts nothing.

        Raises:
            RateLimited: the caller, its tenant or the agent has reached its rate limit.
        """
        self._rates.check(caller, agent)

    def counted(self, caller: Caller, error: Exception) -> Exception:
        """Count a request that `error` refused before it began, and return its refusal.

        That is `error`, or `RateLimited` if the caller or its tenant has reached its limit. A
        `RateLimited` is not counted.
        """
        if isinstance(error, RateLimited):
            return error
        try:
            self._rates.count(caller)
        except RateLimited as limited:
            return limited
        return error

    def admit(
        self, caller: Caller, agent: str, operation: str, task: str = "", **named: str
    ) -> None:
        """Check that the caller may carry out A2A's `operation` with the agent (and `task`).

        This needs no body. `permitted` follows when the task is known. `named`: further fields of
        the audit log that name what the operation concerns.

        Raises:
            NotPermitted: the caller's roles do not include the operation.
            RateLimited: the caller, its tenant or the agent has reached its rate limit.
        """
        if self.counts:
            _is_counted()
        if operation in _PUBLIC:
            return
        if caller.grants is not None and not caller.may(agent, operation):
            self._audit.denied(caller, agent, operation, task, **named)
            raise NotPermitted(f"your roles do not permit {operation} on agent {agent!r}")
        if self.counts:
            self._rates.count(caller, agent)

    async def permitted(
        self, caller: Caller, agent: str, operation: str, task: str = "", **named: str
    ) -> None:
        """Record an operation that `admit` has admitted, before it is carried out."""
        operates = operation in OF_OPERATORS and caller.operates(agent, operation)
        if operates or (operation in self._audit.of_owners and operation not in _PUBLIC):
            await self._audit.permitted(caller, agent, operation, task, operates=operates, **named)

    async def check_operator(
        self,
        caller: Caller,
        operation: str,
        agent: str = ANY_AGENT,
        task: str = "",
        **named: str,
    ) -> None:
        """Check that the caller may carry out an operation of operators; `named` as in `admit`.

        Raises:
            NotPermitted: no operator's role of the caller includes the operation.
            RateLimited: the caller, its tenant or the agent has reached its rate limit.
        """
        name_operation(operation)
        _is_counted()
        if not caller.operates(agent, operation):
            self._audit.denied(caller, agent, operation, task, **named)
            where = "all agents" if agent == ANY_AGENT else f"agent {agent!r}"
            raise NotPermitted(
                f"{operation} needs a role with operator = true and this operation on {where}"
            )
        self._rates.count(caller, "" if agent == ANY_AGENT else agent)
        await self._audit.permitted(caller, agent, operation, task, operates=True, **named)

    async def check_anyone(self, caller: Caller, operation: str) -> bool:
        """Check an operation that needs no permission, and that shows operators more.

        Return whether the caller carries it out as an operator.

        Raises:
            RateLimited: the caller or its tenant has reached its rate limit.
        """
        name_operation(operation)
        if caller.operates(ANY_AGENT, operation):
            await self.check_operator(caller, operation)
            return True
        self.check_own(caller, operation)
        return False

    def check_own(self, caller: Caller, operation: str) -> None:
        """Check an operation on what is the caller's own, which needs no permission.

        Raises:
            RateLimited: the caller or its tenant has reached its rate limit.
        """
        name_operation(operation)
        _is_counted()
        self._rates.count(caller)

    async def record(
        self,
        caller: Caller,
        agent: str,
        operation: str,
        task: str = "",
        *,
        operates: bool = True,
        target_owner: str = "",
        **named: str,
    ) -> None:
        """Record what a caller does with one of several things, all checked together.

        `operates`: as an operator; `target_owner`: whose the thing is. If it is empty, it is looked
        up for a task. `named` as in `admit`.
        """
        await self._audit.permitted(
            caller,
            agent,
            operation,
            task,
            operates=operates,
            target_owner=target_owner,
            **named,
        )


def _is_counted() -> None:
    """Record that the current task's request is counted, or that its refusal is not."""
    if (request := open_request()) is not None:
        request.is_counted = True
