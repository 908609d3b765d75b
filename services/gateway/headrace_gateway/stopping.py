"""A gateway that stops: what it owes to those who still wait for an answer."""

from headrace.errors import HeadraceError


class Stopping(HeadraceError):
    """The gateway is stopping; the task goes on, and another gateway can answer."""

    code = "stopping"
    retryable = True

    def __init__(self, reason: str, task: str = "", context: str = "") -> None:
        """Keep which task goes on, for who asked for it may not have learned its id."""
        super().__init__(f"{reason}; task {task} goes on")
        self.task, self.context = task, context
