"""What goes wrong between a worker and its agents."""

from headrace.errors import HeadraceError


class MalformedOutput(HeadraceError):
    """An agent said something that can't stand in a log; the message says what, without content."""

    code = "malformed_output"


class Misdeclared(HeadraceError):
    """An agent is declared in a way that cannot work; the message is for its author."""

    code = "misdeclared_agent"


class LegOver(HeadraceError):
    """The leg that this output is for has ended, or is another worker's now."""

    code = "leg_over"


class AgentExited(HeadraceError):
    """An agent tried to end the process; only its leg ends."""

    code = "agent_exited"
