"""The retry policy of an agent: attempts, pauses between them, and the time limit."""

from dataclasses import dataclass
from typing import Literal

from headrace.sdk.errors import Misdeclared

type FollowUps = Literal["enqueue", "interrupt", "reject", "steer"]
"""How a message to a running task is handled.

- ``enqueue``: it becomes the next run's input.
- ``interrupt``: it becomes the next run's input, and the running agent is stopped.
- ``reject``: it is refused.
- ``steer``: the running agent gets it (`RunContext.inbox`). If the agent does not read it, it
becomes the next run's input."""

LONGEST_BACKOFF = 60.0
"""Maximum pause between attempts in seconds."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run is tried again if its worker dies or its agent raises `Retryable`."""

    max_attempts: int = 3
    """Maximum number of attempts at one run. After the last one the task fails and a dead letter is
    written. Attempts that a worker handed back while shutting down do not count."""
    backoff: float = 1.0
    """Seconds before the attempt after a `Retryable`. The pause doubles with each further failure,
    to at most `LONGEST_BACKOFF`."""
    timeout: float | None = None
    """Maximum duration of a run in seconds, from its first attempt's start. None: unlimited."""

    def pause(self, failures: int) -> float:
        """Return the pause in seconds after the `failures`-th failed attempt."""
        return float(min(self.backoff * 2 ** min(failures - 1, 32), LONGEST_BACKOFF))

    def check(self, agent: str) -> None:
        """Check the values.

        Raises:
            Misdeclared: A value is out of range.
        """
        if self.max_attempts < 1:
            raise Misdeclared(f"the max_attempts of agent {agent!r} must be at least 1")
        if self.backoff < 0:
            raise Misdeclared(f"the backoff of agent {agent!r} must not be negative")
        if self.timeout is not None and self.timeout <= 0:
            raise Misdeclared(f"the timeout of agent {agent!r} must be more than 0 s")
