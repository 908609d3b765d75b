"""Limits on chains: tasks that begin one another, because the answers of one are events of another.

Each answer may begin a task, and each task may answer often. So a chain is bounded by its depth
(`depth`), by the number of tasks that it begins for one owner, and by a rate per owner.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.metrics import CHAIN_LIMITS
from headrace.model.answers import CHAIN, DEPTH
from headrace.model.errors import HeadraceError
from headrace.model.messages import BusMessage
from headrace_triggers.firing import UndeliverableFiring

_DIGITS = 4
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_UNSHARED = 16
"""Tasks of a chain that a replica begins before it asks what others have begun: most chains are
short, and cost nothing."""

_MANY = 8 * _UNSHARED

_SHARE = 16
"""Tasks that a replica takes at once while a chain has more than `_MANY` left. The last ones are
taken one by one: those that a replica has taken and does not begin are lost to the others."""

_KEPT_FOR = 3600
"""Seconds for which a chain's tasks are counted after the last share was taken."""

_COUNTS = "fired.=chain"
"""Of the keys in the triggers' bucket. No tenant is called so."""

_MOST_KNOWN = 10_000
_ROUNDS = 2 * _MANY
"""Attempts to change a count. Where tasks are taken one by one, each that fails has been overtaken
by another replica's task."""
_LONGEST_WAIT = 2.0
"""Seconds that an answer waits for the rate before it is delivered again."""
_BURST = 2.0
"""Seconds whose tasks may begin at once, after a time without any."""


class ChainWaits(HeadraceError):
    """Answers begin as many tasks for the owner as may in this second; it is delivered again."""

    code = "chain_waits"
    retryable = True


@dataclass(frozen=True, slots=True)
class Link:
    """An answer's place in its chain."""

    chain: str
    """The chain's name."""
    depth: int
    """The number of tasks that have begun one another up to it."""

    @classmethod
    def of(cls, headers: Mapping[str, str], most: int, own: str) -> "Link | None":
        """Return that of an event with `headers`; None: it is no answer.

        A depth that can't be read is `most`. One that names no chain begins the chain `own`.
        """
        stated = headers.get(DEPTH)
        if stated is None:
            return None
        is_number = stated.isascii() and stated.isdigit() and len(stated) < _DIGITS
        return cls(_token(headers.get(CHAIN) or own), int(stated) if is_number else most)


def _token(name: str) -> str:
    """Return the name of a chain as a token of a subject; its sender chose it."""
    return name if _NAME.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:32]


class _ChainCount(BusMessage):
    """How many tasks of one owner a chain may have begun."""

    tasks: int = 0


@dataclass(slots=True)
class _OwnShare:
    """What this replica may begin of a chain."""

    left: int
    has_counted: bool = False
    """Whether what it began without asking is counted."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Chains:
    """The chains whose answers this replica takes."""

    def __init__(self, bus: Bus, depth: int, tasks: int, rate: float) -> None:
        """Allow `depth` tasks in a row, `tasks` in all and `rate` per second, for one owner each.

        What replicas have begun of a chain is counted on `bus`.
        """
        self.depth, self._tasks, self._rate = depth, tasks, rate
        self._bucket = Bucket(bus, bus.streams.triggers)
        # A small number is shared from the first task on.
        self._unshared = _UNSHARED if tasks >= _MANY else 0
        self._own = OrderedDict[tuple[str, str, str], _OwnShare]()
        """By tenant, owner and chain."""
        self._next = dict[tuple[str, str], float]()
        """When the next task of an owner is due, in loop time."""

    async def count(self, tenant: str, owner: str, link: Link, source: str) -> None:
        """Count a task that an answer begins; `give_back` follows if it does not begin.

        Raises:
            UndeliverableFiring: the chain has as many tasks, in a row or in all, as it may have.
            ChainWaits: the owner's rate is reached.
            BusUnavailable: it is not known how many tasks the chain has.
        """
        if link.depth >= self.depth:
            CHAIN_LIMITS.labels("depth").inc()
            raise UndeliverableFiring(
                f"{source}: more than {self.depth} tasks have begun one another through their"
                " answers"
            )
        # What waits takes none: it may be delivered to another replica.
        begins = self._reserve(tenant, owner, source)
        if not await self._count_one((tenant, owner, link.chain)):
            self._release(tenant, owner)
            CHAIN_LIMITS.labels("tasks").inc()
            raise UndeliverableFiring(
                f"{source}: answers have begun {self._tasks} tasks of this owner in the chain"
                f" {link.chain}, as many as one event may"
            )
        await asyncio.sleep(begins - asyncio.get_running_loop().time())

    async def give_back(self, tenant: str, owner: str, link: Link) -> None:
        """Take back what `count` has counted: no task has begun."""
        key = tenant, owner, link.chain
        own = self._own.get(key)
        if own is None:
            return
        returned = 0
        if own.has_counted:
            # What can't be returned stays this replica's.
            with suppress(HeadraceError):
                returned = await self._count(key, own, lambda left: -1 if left < _MANY else 0)
        own.left += 1 + returned

    async def _count_one(self, key: tuple[str, str, str]) -> bool:
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _OwnShare(self._unshared)
            if len(self._own) > _MOST_KNOWN:
                self._own.popitem(last=False)
        self._own.move_to_end(key)
        if not own.left:
            async with own.asking:
                if not own.left:
                    share = await self._count(key, own, _share)
                    own.left += share  # Something may have been given back meanwhile.
        if not own.left:
            return False
        own.left -= 1
        return True

    async def _count(
        self, key: tuple[str, str, str], own: _OwnShare, change_of: Callable[[int], int]
    ) -> int:
        """Change how many tasks are counted by what `change_of` returns, and return that.

        `change_of` is given how many more the chain may begin.
        """
        name = f"{_COUNTS}.{'.'.join(key)}"
        for _ in range(_ROUNDS):
            found = await self._bucket.get(name)
            begun = 0 if found.data is None else _ChainCount.decode(name, found.data).tasks
            begun += 0 if own.has_counted else self._unshared
            change = change_of(self._tasks - begun)
            if not change:
                return 0
            count = _ChainCount(tasks=begun + change)
            try:
                await self._bucket.put(name, count.encode(), found.sequence, seconds=_KEPT_FOR)
            except KeyChanged:
                continue
            own.has_counted = True
            return change
        raise KeyChanged(f"chain {key[-1]} is being counted concurrently")

    def _reserve(self, tenant: str, owner: str, source: str) -> float:
        """Return when the owner's next task may begin, in loop time."""
        now = asyncio.get_running_loop().time()
        for idle in [whose for whose, due in self._next.items() if due < now - _BURST]:
            del self._next[idle]
        due = max(self._next.get((tenant, owner), 0.0), now - _BURST)
        if due - now > _LONGEST_WAIT:
            CHAIN_LIMITS.labels("rate").inc()
            raise ChainWaits(
                f"{source}: answers begin at most {self._rate:g} tasks per second for an owner"
            )
        self._next[tenant, owner] = due + 1 / self._rate
        return due

    def _release(self, tenant: str, owner: str) -> None:
        """Let another task of the owner begin in place of one that does not."""
        if (tenant, owner) in self._next:
            self._next[tenant, owner] -= 1 / self._rate


def _share(left: int) -> int:
    """Return how many of the tasks that a chain has left a replica takes."""
    return _SHARE if left > _MANY else max(0, min(left, 1))
