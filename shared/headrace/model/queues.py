"""Queues: the runs of one agent that wait in one line, those of one tenant and one priority."""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey

type Priority = Literal["high", "normal", "low"]
"""How many turns a queue gets: see `WEIGHTS`."""

PRIORITIES: tuple[Priority, ...] = get_args(Priority.__value__)
"""From the first to the last."""

WEIGHTS: dict[str, float] = {"high": 9.0, "normal": 3.0, "low": 1.0}
"""Turns of a queue that has runs waiting, in proportion to others that have."""

DEFAULT_TENANT = "default"
"""The tenant of callers whose credentials name none."""

_LONGEST_TENANT = 120
"""Characters of a tenant in a consumer's name, which may have 255 in all."""


@dataclass(frozen=True, slots=True)
class RunQueue:
    """One line of waiting runs; every field is a subject token."""

    agent: str
    tenant: str = DEFAULT_TENANT
    priority: str = NORMAL

    @classmethod
    def of(cls, key: TaskKey, priority: str = NORMAL) -> "RunQueue":
        """Return the queue in which runs of the task at `key` wait."""
        return cls(key.agent, key.tenant, priority)

    @property
    def is_first(self) -> bool:
        """Whether it is there for every agent that has a worker."""
        return self.tenant == DEFAULT_TENANT and self.priority == NORMAL

    @property
    def consumer(self) -> str:
        """The name of its consumer: the agent's, and behind it what is not the usual."""
        if self.is_first:
            return self.agent
        tenant = self.tenant
        if len(tenant) > _LONGEST_TENANT:
            tenant = hashlib.sha256(tenant.encode()).hexdigest()
        behind = [tenant] if self.priority == NORMAL else [tenant, self.priority]
        return "@".join([self.agent, *behind])


def agent_of(consumer: str) -> str:
    """Return whose runs a consumer of that name hands out."""
    return consumer.partition("@")[0]


def weight_of(consumer: str) -> float:
    """Return how many turns the queue with a consumer of that name gets."""
    _, _, priority = (*consumer.split("@"), "", "")[:3]
    return WEIGHTS.get(priority, WEIGHTS[NORMAL])
