"""What goes wrong between an agent and those that it asks; all of it is safe to show."""

from headrace.model.errors import HeadraceError


class DelegationFailed(HeadraceError):
    """An agent that was asked has not done it: its task has failed, or was rejected or canceled."""

    code = "delegation_failed"

    def __init__(self, agent: str, reason: str, task: str = "", state: str = "") -> None:
        """Keep who was asked, its task, and the state that it ended in."""
        super().__init__(f"the agent {agent!r} {reason}")
        self.agent, self.reason, self.task, self.state = agent, reason, task, state


class DelegationRefused(DelegationFailed):
    """An agent may not be asked; `why` says which rule forbids it.

    ``agent_unknown``, ``too_deep``, ``too_many``, ``repeated``, ``budget``, ``not_waiting``,
    ``busy`` or ``bad_request``.
    """

    code = "delegation_refused"

    def __init__(self, agent: str, why: str, reason: str) -> None:
        """Keep who was not asked, and why."""
        super().__init__(agent, f"was not asked: {reason}")
        self.why = why
