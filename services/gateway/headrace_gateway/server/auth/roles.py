"""Roles: the agents and operations that a credential or token permits."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field, field_validator

from headrace_gateway.server.auth.caller import Grant


class Table(BaseModel):
    """A table of the file; an unknown key is an error, so that a misspelt key is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "read": (
        "GetTask",
        "ListTasks",
        "SubscribeToTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
    ),
    "send": ("SendMessage", "SendStreamingMessage"),
    "cancel": ("CancelTask",),
    "delete": ("DeleteTask",),
    "push": ("CreateTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"),
}
"""The operations of each group. An AG-UI run is ``send``, attaching to one ``read``, stopping one
``cancel``."""

_NAMES = frozenset(name for names in OPERATIONS.values() for name in names)


class Role(Table):
    """The permissions of callers with the role."""

    name: str = Field(min_length=1)
    agents: tuple[str, ...] = ("*",)
    """Names of agents, or patterns: ``faq-*``."""
    operations: tuple[str, ...] = tuple(OPERATIONS)
    """Groups (``read``, ``send``, ``cancel``, ``delete``, ``push``) or A2A's names."""
    operator: bool = False
    """Whether reading and canceling reach the tasks of all owners of the tenant."""

    @field_validator("operations")
    @classmethod
    def _exist(cls, operations: tuple[str, ...]) -> tuple[str, ...]:
        for one in operations:
            if one not in OPERATIONS and one not in _NAMES:
                known = ", ".join((*OPERATIONS, *sorted(_NAMES)))
                raise ValueError(f"there is no operation {one!r}; known: {known}")
        return operations

    def grant(self) -> Grant:
        """Return the role's permissions."""
        named = [OPERATIONS.get(one, (one,)) for one in self.operations]
        return Grant(
            self.agents, frozenset(name for names in named for name in names), self.operator
        )


def grants_of(roles: Iterable[str], known: Mapping[str, Grant]) -> tuple[Grant, ...]:
    """Return the permissions of all `roles` together; unknown roles permit nothing."""
    return tuple(known[role] for role in roles if role in known)
