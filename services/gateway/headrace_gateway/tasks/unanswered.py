"""Answers that can't be given although the task goes on: the client must not send again."""

from headrace.model.errors import HeadraceError


class Unanswered(HeadraceError):
    """The message has been accepted, or may have been; the answer names its task.

    Sending it again could ask for the work twice, so there is no ``Retry-After``.
    """

    code = "unanswered"

    def __init__(self, message: str, task: str = "", context: str = "") -> None:
        """Keep which task it is, for who asked for it may not have learned its id."""
        super().__init__(message)
        self.task, self.context = task, context


class Stopping(Unanswered):
    """The gateway is stopping; the task goes on, and another gateway can answer."""

    code = "stopping"

    def __init__(self, reason: str, task: str = "", context: str = "") -> None:
        """Keep which task goes on."""
        super().__init__(f"{reason}; task {task} goes on", task, context)


class AnswerLost(Unanswered):
    """The message has been accepted, and what came of it can't be read now."""

    code = "answer_lost"

    def __init__(self, task: str, context: str) -> None:
        """Keep which task goes on."""
        message = f"the message was accepted as task {task}, which can't be read now; get the task"
        super().__init__(message, task, context)


class Unsettled(Unanswered):
    """It is not known yet whether the log has taken the message; the gateway goes on with it."""

    code = "unsettled"

    def __init__(self, task: str, context: str) -> None:
        """Keep which task it is, or is to be."""
        message = f"the message may have been accepted as task {task}; get it, do not send again"
        super().__init__(message, task, context)
