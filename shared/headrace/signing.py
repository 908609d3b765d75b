"""What the fleet signs with: agent cards and notifications, by JSON Web Signature.

The keys are those of files that an operator names or, without any, of a bucket that all gateways
and task states share: whoever comes first makes one. A new key is published for a while before
anything is signed with it, and an old one for long after, so that nobody who keeps the key set for
as long as it says meets a signature by a key that is not in it.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, Moved, Value
from headrace.jwk import SigningKey, key_of_pem, make_pem
from headrace.model.errors import HeadraceError
from headrace.model.messages import BusMessage
from headrace.wait_for import wait_for

_log = logging.getLogger(__name__)

MAX_AGE = 300
"""Seconds for which a key set may be kept."""

LEAD = 2 * MAX_AGE
"""Seconds for which a new key is published before it is used."""

KEPT = 3
"""Keys that are published at a time: after a rotation the one before it stays until the next."""

LOOK_EVERY = 15.0
"""Seconds between looks at the bucket."""

_KEY = "signing"
_SUBJECT = "the fleet's signing keys"


class KeyUnreadable(HeadraceError):
    """A file holds no private key that can sign; the message names it."""

    code = "key_unreadable"


class Generated(BusMessage):
    """One key of the bucket."""

    pem: str
    """The private key, PKCS #8."""
    since: float
    """When it is used from, seconds since 1970."""


class KeyRing(BusMessage):
    """The bucket's record: the newest key last."""

    keys: list[Generated] = Field(default_factory=list)

    def with_new(self, since: float, *, alone: bool) -> Self:
        """Return the ring with one key more, used from `since`; `alone`: without the others."""
        before = [] if alone else self.keys[1 - KEPT :]
        return self.model_copy(update={"keys": [*before, Generated(pem=make_pem(), since=since)]})


class SigningKeys:
    """The keys as they are now."""

    def __init__(self, bus: Bus, files: Iterable[Path] = ()) -> None:
        """Sign with the first of `files`, publish all; without files use the bucket's.

        Raises:
            KeyUnreadable: a file holds no key.
        """
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.keys)
        self._fixed = [_read(path) for path in files]
        self._keys: list[tuple[float, SigningKey]] = [(0.0, key) for key in self._fixed[::-1]]
        self._watching: asyncio.Task[None] | None = None
        self._known: list[Generated] = []

    async def start(self) -> None:
        """Have a key, and see when others come.

        Raises:
            BusUnavailable: the bucket could not be read within `startup_timeout`.
        """
        if not self._fixed:
            await wait_for(_SUBJECT, self._look, self._bus.settings.startup_timeout)
            self._watching = keep_running(self._watch, "signing keys")

    async def stop(self) -> None:
        """Look no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    @property
    def current(self) -> SigningKey:
        """The key to sign with."""
        now = time.time()
        used = [key for since, key in self._keys if since <= now]
        return used[-1] if used else self._keys[0][1]

    def key_set(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish: the public halves."""
        return {"keys": [key.public for _, key in reversed(self._keys)]}

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._look()
            except HeadraceError as trouble:
                _log.info("signing keys not reloaded, the old ones stay in use: %s", trouble)

    async def _look(self) -> None:
        ring = await read_ring(self._bucket)
        if ring.keys != self._known:
            self._known = ring.keys
            self._keys = [(one.since, key_of_pem(one.pem.encode())) for one in ring.keys]


async def read_ring(bucket: Bucket) -> KeyRing:
    """Return the bucket's keys; where there is none, make the first one."""
    while True:
        found = await bucket.get(_KEY)
        ring = _ring(found)
        if ring.keys:
            return ring
        try:
            await bucket.put(_KEY, ring.with_new(0.0, alone=True).encode(), found.sequence)
        except Moved:
            continue  # somebody else's is there


async def rotate(bus: Bus, *, at_once: bool = False) -> str:
    """Add a key to the fleet's and return its id; `at_once`: use it now, and no other ever again.

    Raises:
        BusUnavailable: the bucket does not answer.
    """
    bucket = Bucket(bus, bus.streams.keys)
    while True:
        found = await bucket.get(_KEY)
        ring = _ring(found)
        since = 0.0 if at_once or not ring.keys else time.time() + LEAD
        ring = ring.with_new(since, alone=at_once)
        try:
            await bucket.put(_KEY, ring.encode(), found.sequence)
        except Moved:
            continue
        return key_of_pem(ring.keys[-1].pem.encode()).id


def _ring(found: Value) -> KeyRing:
    return KeyRing() if found.data is None else KeyRing.decode(_SUBJECT, found.data)


def _read(path: Path) -> SigningKey:
    try:
        return key_of_pem(path.read_bytes())
    except (OSError, ValueError, TypeError) as trouble:
        raise KeyUnreadable(f"{path}: {trouble}") from None
