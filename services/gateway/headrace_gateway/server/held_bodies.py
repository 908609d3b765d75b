"""Limits on the bodies that are held at a time: in all and per owner.

A body is held from its first byte until its request is answered, or its stream has begun. It may
come in slowly, so without a limit a known caller could have any number of them held.
"""

from collections import Counter

from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller


class HeldBody:
    """What is held of one body."""

    __slots__ = ("_bodies", "_caller", "_size")

    def __init__(self, bodies: "HeldBodies", caller: Caller) -> None:
        """Hold nothing yet."""
        self._bodies, self._caller, self._size = bodies, caller, 0

    def resize(self, size: int) -> None:
        """Hold `size` bytes from now on.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: that is more than may be held; as much as before is.
        """
        self._bodies.add(self._caller, size - self._size)
        self._size = size

    def release(self) -> None:
        """Hold nothing any more; a second call does nothing."""
        self.resize(0)


class HeldBodies:
    """Counts the bytes of bodies that a gateway holds."""

    def __init__(self, most: int, most_per_owner: int, largest: int) -> None:
        """Hold up to `most` bytes, `most_per_owner` of one owner's; -1: no limit.

        A body of the `largest` size that one may have is taken wherever nothing else is held.
        """
        self._most = _at_least(most, largest)
        self._most_per_owner = _at_least(most_per_owner, largest)
        self._sizes = Counter[Caller]()
        self._size = 0

    def __len__(self) -> int:
        """Return how many bytes are held."""
        return self._size

    def hold(self, caller: Caller, size: int = 0) -> HeldBody:
        """Begin to hold a body of the caller's, of which `size` bytes are there.

        Raises:
            TooManyBytes, TooManyBytesOfOwner: as `HeldBody.resize`.
        """
        body = HeldBody(self, caller)
        body.resize(size)
        return body

    def add(self, caller: Caller, size: int) -> None:
        """Hold `size` bytes more of the caller's, or less, if it is negative.

        Raises:
            TooManyBytes: the gateway would hold more than it may.
            TooManyBytesOfOwner: the caller would have it hold more than one may.
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
