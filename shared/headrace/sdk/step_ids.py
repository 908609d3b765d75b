"""Which step a call is: the uses of names, those within steps, and idempotency keys.

A step is known by its name and the number of that name's use in the run, or by its key.
"""

import json
from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar
from hashlib import blake2b
from uuid import UUID, uuid5

from headrace.model.step import StepId

_KEYS = UUID("d0f0a3f5-2c66-5f0e-9c3b-6a3d3c5d7b11")
"""Namespace of idempotency keys."""

_PREFIX = 16
"""Digits of the prefix of steps within a step."""


class Uses:
    """The uses of names: those of a run, or of one call of a step's function."""

    def __init__(self, prefix: str = "", asked: Iterable[StepId] = ()) -> None:
        """Number uses after those `asked` for, of names that get `prefix` in the log."""
        self.prefix = prefix
        self._asked, self._next = set(asked), dict[str, int]()

    def add(self, id_: StepId) -> None:
        """Count a use that has a record."""
        self._asked.add(id_)

    def has(self, series: str, number: int) -> bool:
        """Return whether that use has been counted."""
        return (series, number) in self._asked

    def next(self, series: str) -> int:
        """Return the number of the name's first use that has not been counted."""
        number = self._next.get(series, 0)
        while self.has(series, number):
            number += 1
        self._next[series] = number
        return number


class StepScope:
    """What one call of a step's function asks for, apart from what the agent asks for.

    Each call asks for the same: steps that it calls have a name of their step's, and numbers of
    their own. So the agent's own steps have their numbers whether the function is called or not.
    """

    def __init__(self, id_: StepId, key: str) -> None:
        """Begin a call for the step with that idempotency key."""
        self.uses = Uses(prefix_of(id_))
        self._key, self._minted = key, Counter[str]()

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`; the same in each call of the step's function."""
        self._minted[kind] += 1
        return f"{self._key}/{kind}/{self._minted[kind]}"


def prefix_of(id_: StepId) -> str:
    """Return what begins the names of the steps that the step's function calls."""
    return f"{blake2b(json.dumps(id_).encode(), digest_size=_PREFIX // 2).hexdigest()}/"


def prefix_in(id_: StepId) -> str | None:
    """Return what begins the step's name. None: no function of another step has called it."""
    return id_[0][: _PREFIX + 1] if id_[0][_PREFIX : _PREFIX + 1] == "/" else None


_scope: ContextVar[StepScope | None] = ContextVar("step_scope", default=None)


def begin_scope(id_: StepId, key: str) -> None:
    """Begin a call of a step's function, in the current asyncio task or thread."""
    _scope.set(StepScope(id_, key))


def step_scope() -> StepScope | None:
    """Return the scope of the step whose function is running. None: the agent itself is."""
    return _scope.get()


def idempotency_key(task: str, run: int, id_: StepId) -> str:
    """Return the key of a run's step, the same in each call of the step's function."""
    return str(uuid5(_KEYS, json.dumps([task, run, *id_])))
