"""How hard the fleet tries for an agent: attempts, pauses between them, and time."""

from dataclasses import dataclass
from typing import Literal

from headrace.sdk.errors import Misdeclared

type FollowUps = Literal["enqueue", "interrupt", "reject", "steer"]
"""What becomes of a message to a running task. ``enqueue``: it is the next run's input.
``interrupt``: so it is, and this run's agent is stopped. ``reject``: it is refused. ``steer``: it
is handed to the agent at work (`RunContext.inbox`); one that it leaves is the next input."""

LONGEST_BACKOFF = 60.0
"""Seconds that a pause between attempts grows to."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of a run whose worker dies, or whose agent asks for another attempt."""

    max_attempts: int = 3
    """Attempts at one run; after the last the task has failed, and a dead letter says so. One that
    a leaving worker handed back does not count."""
    backoff: float = 1.0
    """Seconds before the attempt that follows a `Retryable`; doubled for each one after."""
    timeout: float | None = None
    """Seconds that a run may take from the beginning of its first attempt on; None: any."""

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after the `failures`-th attempt that failed."""
        return float(min(self.backoff * 2 ** min(failures - 1, 32), LONGEST_BACKOFF))

    def check(self, agent: str) -> None:
        """Check the numbers.

        Raises:
            Misdeclared: one makes no sense.
        """
        if self.max_attempts < 1:
            raise Misdeclared(f"the max_attempts of agent {agent!r} must be at least 1")
        if self.backoff < 0:
            raise Misdeclared(f"the backoff of agent {agent!r} must not be negative")
        if self.timeout is not None and self.timeout <= 0:
            raise Misdeclared(f"the timeout of agent {agent!r} must be more than 0 s")
