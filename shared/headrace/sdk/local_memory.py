"""What an agent remembers, in this process: for agents that are called as functions, and tests."""

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from heapq import nlargest

from headrace.model.memory import (
    MemoryScope,
    MemoryValue,
    changed_meanwhile,
    check_prefix,
    check_size,
    encode_key,
    latest,
)


@dataclass(slots=True)
class LocalMemory:
    """The memory of one run's agent. It has the rules of the fleet's, without another writer."""

    scope: MemoryScope
    _values: dict[MemoryScope, dict[str, MemoryValue]] = field(default_factory=dict)
    _revisions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def writing(self, scope: MemoryScope) -> AbstractContextManager[object]:  # noqa: ARG002  # as RunMemory
        """Show nothing: there is no log."""
        return nullcontext()

    async def get(self, scope: MemoryScope, key: str) -> MemoryValue | None:
        """Return the value of `key`."""
        encode_key(key)
        return self._values.get(scope, {}).get(key)

    async def put(self, scope: MemoryScope, key: str, data: bytes, revision: int | None) -> int:
        """Write the value of `key`.

        Raises:
            MemoryChanged, MemoryFull: As `RunMemory.put`.
        """
        check_size(key, data)
        await self._check(scope, key, revision)
        found = MemoryValue(bytes(data), next(self._revisions))
        self._values.setdefault(scope, {})[key] = found
        return found.revision

    async def delete(self, scope: MemoryScope, key: str, revision: int | None) -> None:
        """Delete `key`.

        Raises:
            MemoryChanged: As `RunMemory.delete`.
        """
        await self._check(scope, key, revision)
        self._values.get(scope, {}).pop(key, None)

    async def keys(self, scope: MemoryScope, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        return sorted(await self.read(scope, prefix))

    async def read(
        self, scope: MemoryScope, prefix: str, newest: int | None = None
    ) -> dict[str, MemoryValue]:
        """Return the values of the keys that begin with `prefix`; see `RunMemory.read`."""
        check_prefix(prefix)
        found = [one for one in self._values.get(scope, {}).items() if one[0].startswith(prefix)]
        return dict(
            found if newest is None else nlargest(newest, found, key=lambda one: one[1].revision)
        )

    async def last(self, scope: MemoryScope, prefix: str) -> tuple[str, MemoryValue] | None:
        """Return the key that begins with `prefix` and was written last, and its value."""
        return latest(await self.read(scope, prefix))

    async def _check(self, scope: MemoryScope, key: str, revision: int | None) -> None:
        found = await self.get(scope, key)
        if revision is not None and revision != (found.revision if found else 0):
            raise changed_meanwhile(key)
