"""Callers and their permissions: from the credentials, never from the body (promise 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headrace.model.queues import Priority

OPERATED = frozenset({"GetTask", "ListTasks", "SubscribeToTask", "CancelTask"})
"""Operations with which an operator can read and cancel other owners' tasks."""

ROUTING = frozenset(
    {
        "GetAgentVersions",
        "RouteAgent",
        "RetireAgentVersion",
        "DrainWorker",
        "ListProcesses",
        "SetLogLevel",
        "RotateSigningKey",
    }
)
"""Operations on which versions and processes serve agents, and on the key with which the fleet
signs. They concern all tenants."""

FLEET = frozenset(
    {
        "GetFleet",
        "GetUsage",
        "ListDeadLetters",
        "GetDeadLetter",
        "RetryDeadLetter",
        "DropDeadLetter",
        "ListWebhookDeliveries",
        "FailTask",
        "KillProcess",
        *ROUTING,
    }
)
"""Operations of operators only: they concern the fleet, and not the caller's own tasks."""

OF_OPERATORS = OPERATED | FLEET
"""Operations that a caller may carry out as an operator."""

_PARTS: Mapping[str, tuple[str, ...]] = {
    "SubscribeToContext": ("SubscribeToTask",),
    "ForkTask": ("GetTask", "SendMessage"),
    "PutTrigger": ("SendMessage",),
    "ListSchedules": ("ListTasks",),
    "GetSchedule": ("GetTask",),
    **dict.fromkeys(
        ("PutSchedule", "PauseSchedule", "ResumeSchedule", "RunSchedule", "DeleteSchedule"),
        ("SendMessage",),
    ),
}
"""Operations that a caller may carry out if its roles permit all of these."""

ANY_AGENT = "*"
"""In place of an agent: a role includes the operation if it includes all agents."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of one role."""

    agents: tuple[str, ...]
    """Names, or patterns such as ``faq-*``."""
    operations: frozenset[str]
    """A2A operation names."""
    operator: bool = False
    """Whether `OPERATED` reach the tasks of all owners of their tenant."""

    def covers(self, agent: str, operation: str) -> bool:
        """Return whether the grant includes this operation of this agent."""
        return operation in self.operations and any(
            fnmatchcase(agent, pattern) for pattern in self.agents
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant and an owner, as subject tokens; anonymous without credentials."""

    tenant: str = "default"
    owner: str = "anonymous"
    priority: Priority | None = field(default=None, compare=False)
    """The highest priority of the caller's runs; None for the normal one."""
    identified: bool = field(default=False, compare=False)
    """Whether credentials identify the caller."""
    has_agents_key: bool = field(default=False, compare=False)
    """Whether the key came in a header that only some agents accept."""
    chosen_version: str | None = field(default=None, compare=False)
    """The version of the called agent that its route gives the tenant, or a header of the request.
    None: the task's context decides."""
    grants: tuple[Grant, ...] | None = field(default=None, compare=False)
    """Permissions of the caller's roles; None for everything, with its own tasks."""
    unguarded: bool = field(default=False, compare=False)
    """Whether the gateway has no credentials file, so that every caller is an operator."""

    @classmethod
    def by_signature(
        cls, tenant: str, owner: str, agent: str, operation: str, *, operates: bool = False
    ) -> "Caller":
        """Return the caller of a signed URL, which may do that with the agent, and nothing else.

        `operates`: it does so as an operator.
        """
        grant = Grant((agent,), frozenset({operation}), operator=operates)
        return cls(tenant, owner, identified=True, grants=(grant,))

    @property
    def is_operator(self) -> bool:
        """Whether it reaches what other owners of its tenant have, of some agent."""
        return any(one.operator for one in self.grants or ())

    def may(self, agent: str, operation: str) -> bool:
        """Return whether the caller may carry out A2A's `operation` with the agent."""
        if self.grants is None:
            return True
        parts, grants = _PARTS.get(operation, (operation,)), self.grants
        return all(any(one.covers(agent, part) for one in grants) for part in parts)

    def may_somewhere(self, operation: str) -> bool:
        """Return whether the caller may carry out A2A's `operation` with an agent, known or not."""
        if self.grants is None:
            return True
        parts = _PARTS.get(operation, (operation,))
        return all(any(part in one.operations for one in self.grants) for part in parts)

    def operates(self, agent: str, operation: str) -> bool:
        """Return whether the caller carries out `operation` as an operator.

        One of `OPERATED` then reaches the tasks of all owners of its tenant.
        """
        if self.unguarded and operation in FLEET:
            return True
        if self.grants is None or operation not in OF_OPERATORS:
            return False
        return any(one.operator and one.covers(agent, operation) for one in self.grants)
