"""Whether a caller may do what it asks: by its roles, and not too often. Asked once per request."""

import logging

from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.auth.rate_limits import RateLimits

_audit = logging.getLogger("headrace.audit")
"""Every request by which an operator reaches the tasks of others."""


class Access:
    """The gate before every operation, whatever the protocol."""

    def __init__(self, rates: RateLimits) -> None:
        """Count requests against `rates`."""
        self._rates = rates

    def check(self, caller: Caller, agent: str, operation: str, task: str = "") -> None:
        """Let the caller carry out A2A's `operation` with the agent, with `task` if it names one.

        Raises:
            NotPermitted: its roles do not include that.
            RateLimited: it, or its tenant, asks too often.
        """
        if not caller.may(agent, operation):
            raise NotPermitted(f"your roles do not include {operation} of agent {agent!r}")
        self._rates.take(caller)
        if caller.operates(agent, operation):
            _audit.info(
                "operator tenant=%s owner=%s operation=%s agent=%s task=%s",
                caller.tenant,
                caller.owner,
                operation,
                agent,
                task or "-",
            )
