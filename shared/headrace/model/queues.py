"""Queues: the waiting runs of one agent, tenant, priority and version."""

import hashlib
from typing import Literal, NamedTuple, get_args

from headrace.model.subjects import NORMAL, encode_token
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


class RunQueue(NamedTuple):
    """A queue of waiting runs. Every field is a subject token."""

    agent: str
    tenant: str = DEFAULT_TENANT
    priority: str = NORMAL
    version: str = ""
    """The version of the agent that the tasks are pinned to. Empty: they are not pinned."""

    @classmethod
    def of(cls, key: TaskKey, priority: str = NORMAL, version: str = "") -> "RunQueue":
        """Return the queue for runs of the task at `key`, pinned to the agent's `version`."""
        return cls(key.agent, key.tenant, priority, encode_token(version) if version else "")

    @classmethod
    def first_of(cls, agent: str, version: str = "") -> "RunQueue":
        """Return the queue that the agent, or its pinned version, has while a worker serves it."""
        return cls(agent, version=encode_token(version) if version else "")

    @property
    def is_first(self) -> bool:
        """Whether it is the queue that every agent with a worker has."""
        return self.tenant == DEFAULT_TENANT and self.priority == NORMAL

    @property
    def consumer(self) -> str:
        """The name of its consumer.

        Such as ``shop``, ``shop@tenant``, ``shop@tenant@high`` or ``shop@tenant@high@version``.
        """
        if self.is_first and not self.version:
            return self.agent
        tenant = self.tenant
        if len(tenant) > _LONGEST_TENANT:
            tenant = hashlib.sha256(tenant.encode()).hexdigest()
        behind = [tenant] if self.priority == NORMAL else [tenant, self.priority]
        if self.version:
            behind = [tenant, self.priority, self.version]
        return "@".join([self.agent, *behind])


def agent_of(consumer: str) -> str:
    """Return the agent whose runs the consumer delivers."""
    return consumer.partition("@")[0]


def version_of(consumer: str) -> str:
    """Return the version whose runs the consumer delivers, as a token; empty: not pinned."""
    return (*consumer.split("@"), "", "", "")[3]


def weight_of(consumer: str) -> float:
    """Return the weight of the consumer's queue."""
    _, _, priority = (*consumer.split("@"), "", "")[:3]
    return WEIGHTS.get(priority, WEIGHTS[NORMAL])
