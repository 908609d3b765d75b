"""How the runs of an agent are retried and limited."""

from dataclasses import dataclass
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sdk.errors import Misdeclared, Misused, Retryable
from headrace.sdk.options import option_group

LONGEST_BACKOFF = 60.0
"""Maximum pause between attempts in seconds."""

LONGEST = 10 * 365 * 86400.0
"""Maximum of a duration in seconds: a deadline must be a time of the calendar."""


@option_group
@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a run is attempted again: its worker was killed, or its agent raised a `Retryable`.

    Also when a step's function is called again in the same attempt (`RunContext.step`).
    """

    attempts: int = 3
    """Maximum number of attempts at one run. After the last one the task fails and a dead letter is
    written. Attempts that a worker handed back while shutting down do not count."""
    backoff: float = 1.0
    """Seconds before the attempt after an error. The pause doubles with each further failure, to at
    most `LONGEST_BACKOFF`."""
    on: tuple[type[Exception], ...] = ()
    """Further errors of the agent after which its run is attempted again, such as
    ``(TimeoutError, httpx.TransportError)``. An exception group counts if each of its errors does.
    A step is attempted again after any of its function's errors if this is empty."""

    def pause(self, failures: int) -> float:
        """Return the pause in seconds after the `failures`-th failed attempt."""
        return float(min(self.backoff * 2 ** min(failures - 1, 32), LONGEST_BACKOFF))

    def reason(self, error: BaseException | None) -> Retryable | None:
        """Return why the run is attempted again after `error`; None: it is not.

        The agent asks for it, the error is one of `on`, or the fleet did not answer the agent: what
        it reads from its context may be out of reach for a while, which is no failure of its own.
        """
        match error:
            case Retryable():
                return error
            case HeadraceError(retryable=True):
                return Retryable(error.public)
            case Exception() if isinstance(error, self.on) and not isinstance(error, Misused):
                return Retryable(f"{type(error).__name__}: {error}")
            case BaseExceptionGroup():
                found = [self.reason(each) for each in error.exceptions]
                return None if None in found else found[0]
        return None

    def names(self, error: BaseException | None) -> bool:
        """Return whether `error` is one of `on`, or a group with one of them.

        What the code's author has to put right is none, also if `on` has all exceptions.
        """
        if isinstance(error, Misused):
            return False
        if isinstance(error, BaseExceptionGroup) and error.subgroup(self.on) is not None:
            return True
        return isinstance(error, self.on)

    def check(self, of: str) -> None:
        """Check the values of the declaration `of`, such as ``agent 'echo'``.

        Raises:
            Misdeclared: A value is out of range or of another type.
        """
        _check_number("retry.attempts", self.attempts, of, "a whole number", int)
        _check_number("retry.backoff", self.backoff, of, "a number of seconds", int | float)
        if self.attempts < 1:
            raise Misdeclared(f"the retry.attempts of {of} must be at least 1")
        if not 0 <= self.backoff <= LONGEST:
            rule = f"must not be negative, and at most {LONGEST:.0f} s"
            raise Misdeclared(f"the retry.backoff of {of} {rule}")
        if not _are_errors(self.on):
            raise Misdeclared(f"the retry.on of {of} must be a tuple of classes of exceptions")


@option_group
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many runs of an agent a worker does at a time, and how long one may wait and take."""

    concurrency: int | None = None
    """Maximum number of concurrent runs per worker. None: limited only by the worker's capacity."""
    timeout: float | None = None
    """Maximum duration of a run in seconds, from its first attempt's start. None: unlimited."""
    start_within: float | None = None
    """Seconds within which a worker must start the task after its message was sent. Otherwise the
    task is REJECTED. None: the fleet's setting."""

    def check(self, of: str) -> None:
        """Check the values of the declaration `of`, such as ``agent 'echo'``.

        Raises:
            Misdeclared: A value is out of range or of another type.
        """
        name = "limits.concurrency"
        _check_number(name, self.concurrency, of, "a whole number", int | None)
        if self.concurrency is not None and self.concurrency < 1:
            raise Misdeclared(f"the {name} of {of} must be at least 1")
        seconds = {"limits.timeout": self.timeout, "limits.start_within": self.start_within}
        for name, value in seconds.items():
            _check_number(name, value, of, "a number of seconds", int | float | None)
            if value is not None and not 0 < value <= LONGEST:
                rule = f"must be more than 0 s and at most {LONGEST:.0f} s"
                raise Misdeclared(f"the {name} of {of} {rule}")


def _are_errors(kinds: object) -> bool:
    return isinstance(kinds, tuple) and all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    )


def _check_number(option: str, value: object, of: str, rule: str, kind: Any) -> None:  # noqa: ANN401  # a type
    """Check the type of an option's value.

    Raises:
        Misdeclared: It is of another type.
    """
    if isinstance(value, bool) or not isinstance(value, kind):
        raise Misdeclared(f"the {option} of {of} must be {rule}, not {type(value).__name__}")
