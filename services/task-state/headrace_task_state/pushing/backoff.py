"""When a delivery is tried again, and when it is given up."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double, each a random part of itself less, so that not all come at once."""

    attempts: int
    """After how many attempts a delivery is given up."""
    first: float
    """Seconds after the first attempt, at most."""
    longest: float
    """What that grows to."""

    def wait(self, attempts: int, asked: float = 0.0) -> float:
        """Return the seconds until the next attempt; the receiver `asked` for so many."""
        full = min(self.first * float(1 << min(attempts - 1, 30)), self.longest)
        return max(full * random.uniform(0.5, 1.0), asked)  # noqa: S311 - nothing to guess

    def is_over(self, attempts: int, *, is_given_up: bool) -> bool:
        """Tell whether there is no further attempt; after one was given up, others get one each."""
        return is_given_up or attempts >= self.attempts
