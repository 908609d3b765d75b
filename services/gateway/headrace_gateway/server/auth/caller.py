"""Who is asking, and what they may do: from the credentials, never from the body (promise 6)."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headrace.model.queues import Priority

OPERATED = frozenset({"GetTask", "ListTasks", "SubscribeToTask", "CancelTask"})
"""The operations by which an operator reaches the tasks of others: to see them, and to end them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one role lets its callers do."""

    agents: tuple[str, ...]
    """Names, or patterns such as ``faq-*``."""
    operations: frozenset[str]
    """By A2A's names."""
    operator: bool = False
    """Whether `OPERATED` reach the tasks of all owners of their tenant."""

    def covers(self, agent: str, operation: str) -> bool:
        """Tell whether it is for this operation of this agent."""
        return operation in self.operations and any(
            fnmatchcase(agent, pattern) for pattern in self.agents
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant and an owner, as subject tokens; without credentials somebody is anonymous."""

    tenant: str = "default"
    owner: str = "anonymous"
    priority: Priority | None = field(default=None, compare=False)
    """The highest class that the caller's work may wait in; None: the usual one."""
    identified: bool = field(default=False, compare=False)
    """Whether credentials say who it is."""
    has_agents_key: bool = field(default=False, compare=False)
    """Whether it is known by a header in which only some agents take keys."""
    grants: tuple[Grant, ...] | None = field(default=None, compare=False)
    """What its roles let it do; None: everything, with its own tasks."""

    def may(self, agent: str, operation: str) -> bool:
        """Tell whether the caller may carry out A2A's `operation` with the agent."""
        return self.grants is None or any(one.covers(agent, operation) for one in self.grants)

    def operates(self, agent: str, operation: str) -> bool:
        """Tell whether `operation` reaches the tasks of all owners of the caller's tenant."""
        return operation in OPERATED and any(
            one.operator and one.covers(agent, operation) for one in self.grants or ()
        )
