"""The audit log: who did what with whose task, one line of the logger ``headrace.audit`` each."""

import json
import logging
from collections.abc import Awaitable, Callable, Container, Mapping
from enum import StrEnum

from headrace.log_lines import UNLIMITED, audit_fields, cut
from headrace_gateway.server.auth.caller import Caller

_audit = logging.getLogger("headrace.audit")

_CHANGES = frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "CancelTask",
        "ForkTask",
        "DeleteTask",
        "CreateTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfig",
        "PutSchedule",
        "PauseSchedule",
        "ResumeSchedule",
        "RunSchedule",
        "DeleteSchedule",
        "PutTrigger",
        "PauseTrigger",
        "ResumeTrigger",
        "DeleteTrigger",
    }
)
"""Operations of owners that change something."""


type OwnerOf = Callable[[Caller, str, str], Awaitable[str | None]]
"""Returns the owner, as a subject token, of the caller's tenant's task of an agent. None: unknown.
"""


class Audited(StrEnum):
    """Which permitted requests the audit log contains."""

    OPERATORS = "operators"
    """Those of operators that reach the fleet or other owners' tasks."""
    CHANGES = "changes"
    """Also those with which owners change something."""
    ALL = "all"


class _Everything:
    """Contains all operations."""

    def __contains__(self, _: object) -> bool:
        return True


_OF_OWNERS: Mapping[Audited, Container[str]] = {
    Audited.OPERATORS: frozenset(),
    Audited.CHANGES: _CHANGES,
    Audited.ALL: _Everything(),
}
"""Which operations of owners the log contains."""


class AuditLog:
    """Writes the audit log's lines, before what they describe is done."""

    def __init__(self, audited: Audited, owner_of: OwnerOf) -> None:
        """Write lines about the requests in `audited`, and about all that are denied.

        `owner_of` finds the owners of tasks that operators reach.
        """
        self._owner_of = owner_of
        self.of_owners = _OF_OWNERS[audited]
        """Operations of owners that the log contains."""

    async def permitted(
        self,
        caller: Caller,
        agent: str,
        operation: str,
        task: str,
        *,
        operates: bool,
        target_owner: str = "",
        **named: str,
    ) -> None:
        """Record what the caller does, if it is audited; `operates`: as an operator.

        `target_owner`: whose the thing is, where the request knows; tasks' owners are looked up.
        `named`: further fields that name what the operation concerns, such as a schedule.
        """
        if operates or operation in self.of_owners:
            fields = _fields(caller, agent, operation, task, named)
            fields |= {"role": "operator" if operates else "owner", "outcome": "permitted"}
            if not target_owner and (task or named):
                target_owner = await self._target_owner(caller, agent, task, operates=operates)
            fields["target_owner"] = target_owner or "-"
            # All of them: a limit on the requests is a limit on these lines.
            _audit.info("%s", _text(fields), extra={**audit_fields(**fields), **UNLIMITED})

    async def _target_owner(self, caller: Caller, agent: str, task: str, *, operates: bool) -> str:
        if not operates:
            return caller.owner  # Others than operators reach only what is their own.
        return (await self._owner_of(caller, agent, task) or "") if task else ""

    @staticmethod
    def denied(caller: Caller, agent: str, operation: str, task: str, **named: str) -> None:
        """Record what the caller's roles do not permit; `named` as in `permitted`."""
        fields = _fields(caller, agent, operation, task, named) | {"outcome": "denied"}
        # Nothing else limits refused requests, so these lines are limited.
        _audit.warning("%s", _text(fields), extra=audit_fields(**fields))


_LONGEST = 256
"""Maximum characters of a field that a client names; longer ones would push others off the line."""


def _fields(
    caller: Caller, agent: str, operation: str, task: str, named: Mapping[str, str]
) -> dict[str, str]:
    return {
        "tenant": caller.tenant,
        "owner": caller.owner,
        "role": "-",
        "operation": operation,
        "agent": cut(agent, _LONGEST),
        "task": cut(task, _LONGEST) or "-",
        "target_owner": "-",
        "outcome": "-",
        **{name: cut(value, _LONGEST) for name, value in named.items() if value},
    }


def _text(fields: dict[str, str]) -> str:
    return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())


def _quoted(value: str) -> str:
    """Return a value that does not look like further fields: a client names agent and task."""
    is_plain = not any(char.isspace() or char in "\"'\\=" for char in value)
    return value if is_plain else json.dumps(value, ensure_ascii=False)
