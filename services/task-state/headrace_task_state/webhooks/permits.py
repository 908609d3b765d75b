"""Limits of concurrent requests per owner and host: slow receivers delay only themselves.

Answers on NATS have limits of their own, per stream of the users'.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from headrace.webhooks import TaskWebhook

_ALL = 1000
"""Maximum concurrent requests of one process: each has a connection."""
_OWNERS_PER_HOST = 4
"""Owners that can use one host up to their full limit at the same time."""
_ANSWERS_AT_ONCE = 64
"""Maximum answers that are being published to one stream, per process: with more, each would only
take longer."""
_ANSWERS_HELD = 512
"""Maximum answers to one stream that are being published or wait for that in this process."""

_LONGEST_STEP = 0.1
_LONGEST_WAIT = 300.0
_SMOOTHING = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """An owner and the host that its webhook calls."""

    tenant: str
    owner: str
    host: str
    """Without the port: one machine is one host."""
    stream: str | None = None
    """The stream that stores its answers; empty: none does. None: they are requests to `host`."""

    @classmethod
    def of(cls, tenant: str, webhook: TaskWebhook) -> Self:
        """Return the target of a tenant's webhook."""
        if webhook.answers is not None:
            return cls(tenant, webhook.owner, "", webhook.answers.stream or "")
        if webhook.wakes is not None:
            return cls(tenant, webhook.owner, "", "")
        try:
            host = urlsplit(webhook.address.url).hostname or ""
        except ValueError:
            host = ""
        return cls(tenant, webhook.owner, host.rstrip("."))


class Permits:
    """Counts requests in flight; returns when to retry if a limit is reached.

    Waiting requests are kept only in the queue in NATS. They are redelivered at about the rate at
    which permits become free, so that the cost does not grow with the number of waiting requests.
    """

    def __init__(
        self, per_owner: int, per_host: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow `per_owner` requests for one owner, `per_host` of them to one host."""
        self._per_owner, self._per_host, self._now = per_owner, per_host, now
        self._limits: dict[tuple[str, ...], _Limit] = {}
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()

    def wait(self, target: Target) -> float:
        """Return after how many seconds to request a permit; 0: one is free."""
        for key, _ in self._keys(target):
            limit = self._limits.get(key)
            if limit is not None and (limit.is_reached or self._takes_others_share(key, limit)):
                # Only in this line: what waits for a host that hangs is not ahead of an owner's
                # requests to other hosts.
                return limit.wait(self._now())
        return 0.0

    def _takes_others_share(self, key: tuple[str, ...], limit: "_Limit") -> bool:
        """Return whether as much must stay free for others as is in flight below this limit.

        Of `n` hosts that hang, each has an `n + 1`-th of their owner's permits in flight in the
        end, and as many stay free for another host. The same holds for owners.
        """
        for wider in _WIDER[len(key)](key):
            within = self._limits[wider]
            if limit.busy < within.busy and limit.busy >= within.most - within.busy:
                return True
        return False

    @contextmanager
    def permit(self, target: Target) -> Iterator[float]:
        """Hold a permit for the length of a block; yields as `wait`: above 0, none is held."""
        if wait := self.wait(target):
            yield wait
            return
        keys = self._keys(target)
        for key, most in keys:
            self._limits.setdefault(key, _Limit(most)).busy += 1
        try:
            yield 0.0
        finally:
            now = self._now()
            for key, _ in keys:
                limit = self._limits[key]
                limit.release(now)
                if not limit.busy:
                    del self._limits[key]

    @asynccontextmanager
    async def turn(self, target: Target) -> AsyncIterator[None]:
        """Let few answers at a time be published to one stream; others wait here, in order.

        The queue would deliver those again and again.
        """
        if target.stream is None:
            yield
            return
        turns = self._turns.setdefault(target.stream, asyncio.Semaphore(_ANSWERS_AT_ONCE))
        async with turns:
            yield

    def _keys(self, target: Target) -> tuple[tuple[tuple[str, ...], int], ...]:
        tenant, owner, host = target.tenant, target.owner, target.host
        if target.stream is not None:
            # A stream that hangs holds up no other answers, nor requests.
            return ((("answers", target.stream, "", ""), _ANSWERS_HELD),)
        return (
            ((tenant, owner, host), self._per_host),
            ((tenant, owner), self._per_owner),
            # Slow webhooks of one owner leave room at a host that several owners use.
            ((host,), _OWNERS_PER_HOST * self._per_host),
            ((), _ALL),
        )


_WIDER: Mapping[int, Callable[[tuple[str, ...]], tuple[tuple[str, ...], ...]]] = {
    0: lambda _: (),
    1: lambda _: ((),),
    2: lambda _: ((),),
    3: lambda key: (key[:2], key[2:]),
    4: lambda _: (),
}
"""The limits that contain a limit, by its kind: all; a host; an owner; an owner at a host; answers
to a stream."""


@dataclass(slots=True)
class _Limit:
    most: int
    busy: int = 0
    _step: float = _LONGEST_STEP / 5
    """Seconds between two releases, smoothed."""
    _released: float = 0.0
    _slot: float = 0.0
    """When the last waiting request comes again."""

    @property
    def is_reached(self) -> bool:
        return self.busy >= self.most

    def wait(self, now: float) -> float:
        # Twice as often as permits become free: otherwise a slow phase would persist.
        self._slot = max(self._slot, now) + self._step / 2
        if self._slot - now <= _LONGEST_WAIT:
            return self._slot - now
        self._slot = now + _LONGEST_WAIT
        return _LONGEST_WAIT * random.uniform(0.5, 1.0)  # noqa: S311 - nothing to guess

    def release(self, now: float) -> None:
        self.busy -= 1
        step = min(now - self._released, _LONGEST_STEP)
        self._released = now
        self._step += _SMOOTHING * (step - self._step)
