"""Errors between a worker and its agents."""

from headrace.model.errors import HeadraceError, LogLost


class MalformedOutput(HeadraceError):
    """An agent's output is invalid or not allowed at this point.

    The message names the problem and contains none of the output's content.
    """

    code = "malformed_output"


class Misdeclared(HeadraceError):
    """The declaration of an agent or tool is invalid. The message is for its author."""

    code = "misdeclared_agent"


class UnknownOption(Misdeclared, TypeError):
    """An agent is declared with an option that does not exist, or that belongs to another one."""

    code = "unknown_option"


class RunOver(HeadraceError):
    """The run of this output has ended or belongs to another worker."""

    code = "run_over"


def is_of_fleet(error: BaseException) -> bool:
    """Return whether `error` is no failure of the agent: its run is over here, or tried again."""
    return isinstance(error, RunOver | LogLost) or (
        isinstance(error, HeadraceError) and error.retryable
    )


class Overtaken(HeadraceError):
    """A message was queued at `generation` before this append, which must not follow it."""

    code = "overtaken"

    def __init__(self, generation: int) -> None:
        """Keep the generation of the queued message."""
        super().__init__(f"a message was queued at generation {generation}")
        self.generation = generation


class Misused(HeadraceError):
    """An agent used a function that can't be used in a worker.

    The message is for the agent's author. It contains none of the agent's input.
    """

    code = "misused"


class AgentExited(Misused):
    """An agent tried to exit the process. Only its run ends."""

    code = "agent_exited"


class AgentReadTerminal(Misused):
    """An agent called `input`, and a worker has no terminal."""

    code = "agent_read_terminal"


class CallNotAwaited(Misused):
    """An agent called a method of its context without await. It did nothing."""

    code = "call_not_awaited"


class CalledInOtherLoop(Misused):
    """An agent or tool used its context outside of its worker's event loop."""

    code = "called_in_other_loop"


class StepChanged(Misused):
    """The agent's code, or its path through it, does not fit the steps that the log has.

    The run fails before the step's function is called.
    """

    code = "step_changed"


class StepAmbiguous(Misused):
    """Two calls of a step at the same time can't be told apart in another attempt."""

    code = "step_ambiguous"


class StepFailed(HeadraceError):
    """A step failed, and its error is recorded: each attempt gets it.

    Attributes:
        step: The step's name.
        kind: Name of the error's class.
        reason: The error's message.
    """

    code = "step_failed"

    def __init__(self, step: str, kind: str, reason: str) -> None:
        """Keep the step's name, and the error's class and message."""
        super().__init__(f"step {step!r} failed: {kind}: {reason}")
        self.step, self.kind, self.reason = step, kind, reason


class ClientServerRefused(HeadraceError):
    """A run's client names an MCP server that its agent does not allow, or not as it must be.

    The message names the field and the rule, for the client.
    """

    code = "client_server_refused"


class Retryable(HeadraceError):
    """Raised by an agent to have its run tried again after a pause.

    Args:
        reason: Shown to the client if this was the last attempt.
        after: Seconds to wait before the next attempt. None: the agent's backoff.
    """

    code = "retryable"
    retryable = True

    def __init__(self, reason: str = "", after: float | None = None) -> None:
        """Keep the reason and the pause in seconds."""
        super().__init__(reason)
        self.after = after


class DelegationFailed(HeadraceError):
    """A child task failed, was rejected or was canceled."""

    code = "delegation_failed"
    _outcome = "failed"

    def __init__(self, agent: str, reason: str, task: str = "", state: str = "") -> None:
        """Keep the child's agent, task and final state."""
        delegation = f"delegation to {agent!r}" if agent else "delegation"
        super().__init__(f"{delegation} {self._outcome}: {reason}")
        self.agent, self.reason, self.task, self.state = agent, reason, task, state


class DelegationRefused(DelegationFailed):
    """A delegation was refused; `why` names the rule.

    One of ``agent_unknown``, ``too_deep``, ``too_many``, ``repeated``, ``budget``, ``not_waiting``,
    ``busy``, ``bad_request``.
    """

    code = "delegation_refused"
    _outcome = "was refused"

    def __init__(self, agent: str, why: str, reason: str) -> None:
        """Keep the agent and the rule."""
        super().__init__(agent, reason)
        self.why = why
