"""A gateway that stops: what it owes to those who still wait for an answer."""

from headrace.errors import HeadraceError


class Stopping(HeadraceError):
    """The gateway is stopping; the task goes on, and another gateway can answer."""

    code = "stopping"
    retryable = True
