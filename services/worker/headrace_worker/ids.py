"""Ids of what one run makes.

They are the same in each attempt, so that a new one replaces what a dead one made, and unlike those
of every other run, so that a conversation can hold them all.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b


class RunIds:
    """Mints ids such as ``block-8c1f29d0ab-0``: kind, a digest of the run, a number per kind."""

    def __init__(self, task: str, run: int, minted: Mapping[str, int] | None = None) -> None:
        """Mint for one run of `task`, going on where `minted` ids of each kind exist."""
        self._digest = blake2b(f"{task}/{run}".encode(), digest_size=5).hexdigest()
        self._minted = Counter[str](minted or {})

    @property
    def minted(self) -> dict[str, int]:
        """How many ids of each kind have been minted."""
        return dict(self._minted)

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`."""
        number = self._minted[kind]
        self._minted[kind] += 1
        return f"{kind}-{self._digest}-{number}"
