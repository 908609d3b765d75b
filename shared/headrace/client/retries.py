"""When a request is made again, and when the client gives up."""

import asyncio
import random
from dataclasses import dataclass

from headrace.client.errors import ConnectionLost, RequestRefused, Unreachable

_LONGEST_PAUSE = 5.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """How often a lost connection is retried, and after which pause."""

    attempts: int
    """Failures in a row after which the client gives up."""
    backoff: float
    """Seconds before the attempt after the first failure. The pause doubles with each further one,
    to at most 5 s, and half of it is random."""

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that number of failures in a row."""
        longest = min(self.backoff * 2.0 ** (failures - 1), _LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  # spreads clients, guards nothing


class Retries:
    """Counts the failures of one operation."""

    def __init__(
        self, options: RetryOptions, gateways: int, *, was_connected: bool = False
    ) -> None:
        """Start without failures, with that number of `gateways`.

        `was_connected`: whether one of them has answered another operation.
        """
        self._options, self._gateways = options, gateways
        self._failures = 0
        self._was_connected = was_connected
        self.gateway = 0
        """Number of the gateway that the operation uses."""
        self._tried = set[int]()

    def choose(self, first: int) -> int:
        """Return the number of the gateway to use next: `first`, unless it has failed already.

        None is used twice while there are others to try.
        """
        order = [(first + step) % self._gateways for step in range(self._gateways)]
        self.gateway = next((one for one in order if one not in self._tried), first)
        return self.gateway

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self._failures, self._was_connected = 0, True
        self._tried.clear()

    def turn(self) -> None:
        """Use another gateway for the next attempt, if there is one."""
        self._tried.add(self.gateway)
        if len(self._tried) == self._gateways:
            self._tried.clear()

    async def failed(self, url: str, error: Unreachable) -> None:
        """Pause before the next attempt, which is made at another gateway if there is one.

        Raises:
            ConnectionLost: there were too many failures in a row, or no gateway can be reached at
                the very start, where a URL may be wrong.
            RequestRefused: as `ConnectionLost`, and the gateway stated the reason.
        """
        self._failures += 1
        self.turn()
        self._was_connected = self._was_connected or error.was_connected
        left = self._options.attempts if self._was_connected else self._gateways
        if self._failures >= left:
            if error.response is not None:
                raise RequestRefused(error.response) from error
            raise ConnectionLost(f"no answer from {url}: {error}") from error
        retry_after = (error.response and error.response.retry_after) or 0.0
        if retry_after or self._failures >= self._gateways:
            await asyncio.sleep(max(self._options.pause(self._failures), retry_after))
