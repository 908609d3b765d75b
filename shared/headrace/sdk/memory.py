"""What an agent remembers, as its context gives it: ``ctx.memory``."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.model import json_text
from headrace.model.memory import MemoryChanged, MemoryScope, MemoryValue
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.runtime import RunMemory

_TRIES = 20
_PAUSE = 0.02
"""Seconds before another try, at most, for each try before."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Values under keys that outlive runs, workers and restarts.

    ``ctx.memory`` belongs to the conversation and is erased with its last task. `of_task` and
    `of_owner` last for a shorter and a longer time. Agents, owners and tenants never see each
    other's.

    A key is any text. Slashes divide it into segments, by which `keys` and `read` select. Methods
    raise `InvalidName` for a key that is empty or too long, `BusUnavailable` if NATS does not
    answer, and those that write raise `RunOver` once another worker has the run.
    """

    _store: RunMemory
    scope: MemoryScope

    @property
    def of_task(self) -> "Memory":
        """The task's memory, which is erased with the task. Only its own runs can write it."""
        return Memory(self._store, self._store.scope)

    @property
    def of_owner(self) -> "Memory":
        """The memory of the task's owner, across conversations.

        It lasts until it is deleted, or for ``HEADRACE_OWNER_MEMORY_SECONDS`` after its last write.
        """
        return Memory(self._store, self.scope._replace(context=None, task=None))

    async def get(self, key: str) -> MemoryValue | None:
        """Return the value of `key`; None: it does not exist."""
        return await self._store.get(self.scope, key)

    async def put(self, key: str, data: bytes, *, revision: int | None = None) -> int:
        """Write the value of `key` and return its revision.

        Args:
            key: Any text.
            data: At most 16 MiB.
            revision: The revision that the key must have. 0: it must not exist. None: any.

        Raises:
            MemoryChanged: The key has another revision.
            MemoryFull: The value is too large, or the fleet's memory is full.
            MalformedOutput: It is not bytes.
        """
        given: object = data
        if not isinstance(given, bytes | bytearray):
            kind = type(given).__name__
            raise MalformedOutput(
                f"the value of memory key {key!r} must be bytes, not {kind}; use save for JSON"
            )
        with self._store.writing(self.scope):
            return await self._store.put(self.scope, key, data, revision)

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        """Delete `key`. Nothing happens if it does not exist.

        Raises:
            MemoryChanged: The key has another `revision` than the given one.
            MemoryFull: The fleet's memory is full, and the value smaller than the mark of its
                deletion.
        """
        with self._store.writing(self.scope):
            await self._store.delete(self.scope, key, revision)

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, sorted.

        Args:
            prefix: Empty for all keys, or whole segments: ``"drafts/"``.
        """
        return await self._store.keys(self.scope, prefix)

    async def read(self, prefix: str = "") -> dict[str, MemoryValue]:
        """Return the values of the keys that begin with `prefix`, as `keys`, by key.

        Many values cost few requests.
        """
        return await self._store.read(self.scope, prefix)

    async def load(self, key: str, default: Any = None) -> Any:  # noqa: ANN401  # any JSON
        """Return the JSON value of `key`, or `default` if it does not exist."""
        found = await self.get(key)
        return default if found is None else json_text.decode(found.data)

    async def save(self, key: str, value: Any) -> int:  # noqa: ANN401  # any JSON
        """Write `value` as JSON and return its revision.

        Raises:
            MalformedOutput: It is not JSON.
            MemoryFull: As for `put`.
        """
        return await self.put(key, _encoded(key, value))

    async def update(self, key: str, change: Callable[[Any], Any], default: Any = None) -> Any:  # noqa: ANN401  # any JSON
        """Write what `change` returns for the JSON value of `key`, and return it.

        If another run writes the key meanwhile, `change` is called again with that run's value.

        Raises:
            MalformedOutput: The new value is not JSON.
            MemoryChanged: Others wrote the key each of 20 times.
            MemoryFull: As for `put`.
        """
        for tries in range(_TRIES):
            if tries:
                # Writers in step with each other would hinder each other in every try.
                await asyncio.sleep(random.uniform(0, tries * _PAUSE))  # noqa: S311
            found = await self.get(key)
            value = change(default if found is None else json_text.decode(found.data))
            try:
                await self.put(key, _encoded(key, value), revision=found.revision if found else 0)
            except MemoryChanged:
                continue
            return value
        raise MemoryChanged(f"memory key {key!r} was changed {_TRIES} times meanwhile; try later")


def _encoded(key: str, value: object) -> bytes:
    try:
        return json_text.encode(value)
    except TypeError as error:
        raise MalformedOutput(
            f"the value of memory key {key!r} is not JSON: {error}; use put for bytes"
        ) from None
