"""Signing keys of the fleet, for agent cards, notifications and URLs of files.

The keys come from files that an operator names. Without files, they come from a bucket that all
gateways and task states share; the first one to start creates a key. A new key is published for a
while before it is used, and an old one stays published long after. So a client that caches the key
set for no longer than its maximum age always has the key of a signature.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import Field

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged, Value
from headrace.lazy import Lazy
from headrace.model.errors import HeadraceError, SettingInvalid
from headrace.model.messages import BusMessage
from headrace.wait_for import wait_for

if TYPE_CHECKING:
    from headrace.jwk import SigningKey

_log = logging.getLogger(__name__)

MAX_AGE = 300
"""Seconds for which clients may cache the key set."""

MARGIN = MAX_AGE
"""Seconds that clocks of two processes may be apart. A key may sign so long before its time, and
its predecessor so long after that."""

LOOK_EVERY = 15
"""Seconds between reads of the bucket."""

LEAD = MAX_AGE + MARGIN + LOOK_EVERY
"""Seconds between the storing of a new key and its use. A gateway may publish it `LOOK_EVERY` later
and another process may use it `MARGIN` earlier."""

_KEY = "signing"
_SUBJECT = "the fleet's signing keys"


class KeyUnreadable(SettingInvalid):
    """A file contains no private key that can sign. The message names the file."""

    code = "key_unreadable"


class StoredKey(BusMessage):
    """A key in the bucket."""

    pem: str
    """The private key in PEM (PKCS #8)."""
    since: float
    """When its use begins, in seconds since 1970."""


def make_pem() -> str:
    """Return a new P-256 private key in PEM: every library verifies its signatures."""
    # Here, because only the first process of a fleet makes one.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - see above

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


class KeyRing(BusMessage):
    """The bucket's record. The newest key is the last."""

    keys: list[StoredKey] = Field(default_factory=list)

    def pending(self) -> list[StoredKey]:
        """Return the keys that have signed nothing, whatever process's clock is ahead."""
        return [one for one in self.keys if one.since - MARGIN > time.time()]

    def with_new(self, since: float, *, alone: bool) -> Self:
        """Return the ring with a new key that is used from `since`; `alone` removes the others.

        It replaces the pending keys: otherwise several rotations in a row would remove the key in
        use. Every key that any process may sign with stays, and the key before those.
        """
        pending, settled = self.pending(), time.time() - MARGIN
        used = [one for one in self.keys if one not in pending]
        over = sum(one.since <= settled for one in used[1:])
        """How many have a successor with which every process signs."""
        before = [] if alone else used[max(over - 1, 0) :]
        return self.model_copy(update={"keys": [*before, StoredKey(pem=make_pem(), since=since)]})


def read_keys(files: "Iterable[Path]") -> "list[SigningKey]":
    """Return the private keys of files.

    Raises:
        KeyUnreadable: A file contains no usable key.
    """
    return [_read(path) for path in files]


class SigningKeys:
    """The current keys."""

    def __init__(self, bus: Bus, files: Iterable[Path] = ()) -> None:
        """Sign with the first of `files` and publish all. Without files use the bucket's keys.

        Raises:
            KeyUnreadable: A file contains no usable key.
        """
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.keys)
        self._fixed = read_keys(files)
        fixed: list[tuple[float, SigningKey]] = [(0.0, key) for key in self._fixed[::-1]]
        self._keys = Lazy(lambda: fixed)
        self._watching: asyncio.Task[None] | None = None
        self._known: list[StoredKey] = []

    async def start(self) -> None:
        """Load the keys and keep them up to date.

        Raises:
            BusUnavailable: The bucket could not be read within `startup_timeout`.
        """
        if not self._fixed:
            await wait_for(_SUBJECT, self._look, self._bus.settings.startup_timeout)
            self._watching = keep_running(self._watch, "signing keys")

    async def stop(self) -> None:
        """Stop reading the bucket."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def ready(self) -> None:
        """Load what signs; without this the first use of `current` or `key_set` does, in its loop.

        Most processes sign nothing for a long time, and the library is a large import.
        """
        await self._keys.ready()

    @property
    def current(self) -> "SigningKey":
        """The key to sign with."""
        now, keys = time.time(), self._keys.value
        used = [key for since, key in keys if since <= now]
        return used[-1] if used else keys[0][1]

    @property
    def known(self) -> "list[SigningKey]":
        """All keys, the newest first; a process whose clock differs may sign with another one."""
        return [key for _, key in reversed(self._keys.value)]

    def key_set(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish: the public keys."""
        return {"keys": [key.public for key in self.known]}

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._look()
            except HeadraceError as error:
                _log.info("could not reload the signing keys; the old ones stay in use: %s", error)

    async def _look(self) -> None:
        ring = await read_ring(self._bucket)
        if ring.keys != self._known:
            self._known = ring.keys
            self._keys = Lazy(partial(_parsed, ring.keys))


async def read_ring(bucket: Bucket) -> KeyRing:
    """Return the bucket's keys. Create the first one if the bucket has none."""
    while True:
        found = await bucket.get(_KEY)
        ring = _ring(found)
        if ring.keys:
            return ring
        try:
            await bucket.put(_KEY, ring.with_new(0.0, alone=True).encode(), found.sequence)
        except KeyChanged:
            continue  # another process has created one


class Rotation(NamedTuple):
    """A new key."""

    id: str
    used_in: int
    """Seconds until it signs."""
    replaced: list[str]
    """Ids of the keys that it replaces: the pending one, or with `at_once` all. In place of the id
    of a key that nobody can read: ``unreadable``."""

    def shown(self) -> dict[str, object]:
        """Return it as operators get it, from the fleet API and the command line."""
        return {"kid": self.id, "usedInSeconds": self.used_in, "replaced": self.replaced}


async def rotate(bus: Bus, *, at_once: bool = False) -> Rotation:
    """Add a key to the fleet's keys.

    With `at_once` it is used immediately, and all other keys are removed.

    Raises:
        BusUnavailable: The bucket does not answer.
    """
    bucket = Bucket(bus, bus.streams.keys)
    while True:
        found = await bucket.get(_KEY)
        ring = _ring(found)
        since = 0.0 if at_once or not ring.keys else time.time() + LEAD
        # Before the key is stored: then a rotation that fails has changed nothing.
        replaced = [_id_of(one) for one in (ring.keys if at_once else ring.pending())]
        ring = ring.with_new(since, alone=at_once)
        new = _id_of(ring.keys[-1])
        try:
            await bucket.put(_KEY, ring.encode(), found.sequence)
        except KeyChanged:
            continue
        return Rotation(new, 0 if at_once else LEAD, replaced)


def _ring(found: Value) -> KeyRing:
    return KeyRing() if found.data is None else KeyRing.decode(_SUBJECT, found.data)


def _id_of(key: StoredKey) -> str:
    try:
        [(_, parsed)] = _parsed([key])
    except (ValueError, TypeError):
        return "unreadable"
    return parsed.id


def _parsed(keys: Iterable[StoredKey]) -> "list[tuple[float, SigningKey]]":
    # Here, because most processes sign nothing and the library is a large import.
    from headrace.jwk import key_of_pem  # noqa: PLC0415 - see above

    return [(one.since, key_of_pem(one.pem.encode())) for one in keys]


def _read(path: Path) -> "SigningKey":
    from headrace.jwk import key_of_pem  # noqa: PLC0415 - see `_parsed`

    try:
        return key_of_pem(path.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise KeyUnreadable(f"{path}: {error}") from None
