"""Queues: the waiting runs of one agent, tenant and priority."""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey

type Priority = Literal["high", "normal", "low"]
"""The priority of a queue: its share of turns is in `WEIGHTS`."""

PRIORITIES: tuple[Priority, ...] = get_args(Priority.__value__)
"""In descending order."""

WEIGHTS: dict[str, float] = {"high": 9.0, "normal": 3.0, "low": 1.0}
"""Relative number of turns among queues with waiting runs."""

DEFAULT_TENANT = "default"
"""The tenant of callers whose credentials name none."""

_LONGEST_TENANT = 120
"""Maximum length of a tenant in a consumer's name, which may have 255 characters in all."""


@dataclass(frozen=True, slots=True)
class RunQueue:
    """A queue of waiting runs. Every field is a subject token."""

    agent: str
    tenant: str = DEFAULT_TENANT
    priority: str = NORMAL

    @classmethod
    def of(cls, key: TaskKey, priority: str = NORMAL) -> "RunQueue":
        """Return the queue for runs of the task at `key`."""
        return cls(key.agent, key.tenant, priority)

    @property
    def is_first(self) -> bool:
        """Whether it is the queue that every agent with a worker has."""
        return self.tenant == DEFAULT_TENANT and self.priority == NORMAL

    @property
    def consumer(self) -> str:
        """The name of its consumer, such as ``shop``, ``shop@tenant`` or ``shop@tenant@high``."""
        if self.is_first:
            return self.agent
        tenant = self.tenant
        if len(tenant) > _LONGEST_TENANT:
            tenant = hashlib.sha256(tenant.encode()).hexdigest()
        behind = [tenant] if self.priority == NORMAL else [tenant, self.priority]
        return "@".join([self.agent, *behind])


def agent_of(consumer: str) -> str:
    """Return the agent whose runs the consumer delivers."""
    return consumer.partition("@")[0]


def weight_of(consumer: str) -> float:
    """Return the weight of the consumer's queue."""
    _, _, priority = (*consumer.split("@"), "", "")[:3]
    return WEIGHTS.get(priority, WEIGHTS[NORMAL])
