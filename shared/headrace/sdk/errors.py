"""What goes wrong between a worker and its agents."""

from headrace.model.errors import HeadraceError


class MalformedOutput(HeadraceError):
    """An agent said something that can't stand in a log; the message says what, without content."""

    code = "malformed_output"


class Misdeclared(HeadraceError):
    """An agent is declared in a way that cannot work; the message is for its author."""

    code = "misdeclared_agent"


class RunOver(HeadraceError):
    """The run that this output is for has ended, or is another worker's now."""

    code = "run_over"


class Overtaken(HeadraceError):
    """A message was queued first, behind `generation`: what was to come there must not."""

    code = "overtaken"

    def __init__(self, generation: int) -> None:
        """Say where the log is now."""
        super().__init__(f"a message was queued at generation {generation}")
        self.generation = generation


class AgentExited(HeadraceError):
    """An agent tried to end the process; only its run ends."""

    code = "agent_exited"


class Retryable(HeadraceError):
    """Raised by an agent that could not do it now: somebody is to try again after a pause.

    Its message is shown to the client if this was the last attempt. `after` is the pause in
    seconds; None: the agent's backoff.
    """

    code = "retryable"
    retryable = True

    def __init__(self, reason: str = "", after: float | None = None) -> None:
        """Say why, and when it may go better."""
        super().__init__(reason)
        self.after = after


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
