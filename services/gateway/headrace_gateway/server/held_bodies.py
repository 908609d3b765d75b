"""Limits on request bodies held in memory, in total and per owner.

A body is held from its first byte until its request is answered, or its stream has begun. It may
arrive slowly, so without a limit an authenticated caller could have any number of bodies held.
"""

from collections import Counter

from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller


class HeldBody:
    """The held bytes of one body."""

    __slots__ = ("_bodies", "_caller", "_size")

    def __init__(self, bodies: "HeldBodies", caller: Caller) -> None:
        """Begin with no bytes."""
        self._bodies, self._caller, self._size = bodies, caller, 0

    def resize(self, size: int) -> None:
        """Set the held size to `size` bytes.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: a limit is exceeded; the held size stays unchanged.
        """
        self._bodies.add(self._caller, size - self._size)
        self._size = size

    def release(self) -> None:
        """Release all bytes; a second call does nothing."""
        self.resize(0)


class HeldBodies:
    """Counts the bytes of request bodies that a gateway holds."""

    def __init__(self, most: int, most_per_owner: int, largest: int) -> None:
        """Allow `most` bytes in total and `most_per_owner` per owner; -1 is unlimited.

        Both limits are at least `largest`, the maximum size of one body, so that one body always
        fits.
        """
        self._most = _at_least(most, largest)
        self._most_per_owner = _at_least(most_per_owner, largest)
        self._sizes = Counter[Caller]()
        self._size = 0

    def __len__(self) -> int:
        """Return the number of held bytes."""
        return self._size

    def hold(self, caller: Caller, size: int = 0) -> HeldBody:
        """Begin to hold a body of the caller, with `size` bytes already received.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: as `HeldBody.resize`.
        """
        body = HeldBody(self, caller)
        body.resize(size)
        return body

    def add(self, caller: Caller, size: int) -> None:
        """Add `size` bytes, which may be negative, to the caller's held bytes.

        Raises:
            TooManyBytes: the gateway's limit would be exceeded.
            TooManyBytesOfOwner: the owner's limit would be exceeded.
        """
        if size > 0 and 0 <= self._most < self._size + size:
            raise TooManyBytes(f"this gateway holds {self._size} bytes of requests; try another")
        if size > 0 and 0 <= self._most_per_owner < self._sizes[caller] + size:
            raise TooManyBytesOfOwner(
                f"your requests under way have {self._sizes[caller]} bytes already"
            )
        self._size += size
        self._sizes[caller] += size
        if not self._sizes[caller]:
            del self._sizes[caller]


def _at_least(most: int, largest: int) -> int:
    return most if most < 0 else max(most, largest)
