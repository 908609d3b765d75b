"""A call of a step's function: its options, its retries, its timeout."""

import asyncio
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from headrace.model.step import StepId
from headrace.sdk.errors import (
    AgentExited,
    MalformedOutput,
    Misused,
    Retryable,
    is_of_fleet,
)
from headrace.sdk.policy import LONGEST, Retry
from headrace.sdk.step_ids import begin_scope
from headrace.sdk.step_values import annotation_of, type_adapter
from headrace.sdk.thread_pool import call_in_thread

_LONGEST_NAME = 200
_LONGEST_KEY = 500
"""Characters of names and keys."""

IDEMPOTENCY_KEY = "idempotency_key"
"""Name of the parameter that gets the step's key, if its function has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """A call of `RunContext.step`, or of a tool that is a step."""

    name: str
    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    retry: Retry | None = None
    timeout: float | None = None
    returns: Any = None
    """Type of the result. None: the annotation of the function, if it has one."""
    interruptible: bool = False
    record_errors: bool = False
    alike: str = ""
    """Digest of what distinguishes calls of the name whose order may change. Calls with the same
    one are interchangeable, also at the same time."""
    is_shown: bool = True

    @property
    def series(self) -> str:
        """The name by which the call's uses are numbered."""
        return f"{self.name} {self.alike}" if self.alike else self.name

    @property
    def adapter(self) -> TypeAdapter[Any] | None:
        """What validates the result; None: it has no type that Pydantic knows."""
        returns = annotation_of(self.function) if self.returns is None else self.returns
        return type_adapter(returns)

    def check(self) -> None:
        """Check the options.

        Raises:
            Misused: One is of another type, or has an invalid value.
            Misdeclared: One of `retry` has.
        """
        if not _is_text(self.name, _LONGEST_NAME):
            raise Misused(f"a step's name must be text of 1 to {_LONGEST_NAME} characters")
        if not callable(self.function):
            raise Misused(
                f"step {self.name!r} needs a function and its arguments, not"
                f" {type(self.function).__name__}: write ctx.step({self.name!r}, function, …)"
            )
        if self.key is not None and not _is_text(self.key, _LONGEST_KEY):
            raise Misused(
                f"the key of step {self.name!r} must be text of 1 to {_LONGEST_KEY} characters"
            )
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise Misused(
                f"the timeout of step {self.name!r} must be more than 0 s and at most"
                f" {LONGEST:.0f} s"
            )
        if self.returns is not None and type_adapter(self.returns) is None:
            raise Misused(f"the returns of step {self.name!r} must be a type that Pydantic knows")
        if self.retry is not None:
            if not isinstance(self.retry, Retry):
                raise Misused(f"the retry of step {self.name!r} must be a Retry: write Retry(…)")
            self.retry.check(f"step {self.name!r}")


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= LONGEST


async def result_of(call: StepCall, id_: StepId, key: str, stop: asyncio.Event) -> Any:  # noqa: ANN401  # the function's
    """Return what the step's function returns, called again as `call.retry` says until `stop`.

    Raises:
        AgentExited: The function ends the process.
        CancelledError: The run is stopped, and another call might be cut in half.
        Exception: The function's own, of its last call.
    """
    retry = call.retry
    for failures in itertools.count(1):
        begin_scope(id_, key)
        try:
            return await _called(call, key)
        except Exception as error:
            if retry is None or failures >= retry.attempts or not _is_retried(error, retry):
                raise
            own = error.after if isinstance(error, Retryable) else None
        await _pause(retry.pause(failures) if own is None else own, stop)
    raise AssertionError("there is always another number")


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait before another call.

    Raises:
        CancelledError: The run is stopped, and another call might be cut in half.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    if stop.is_set():
        raise asyncio.CancelledError


def _is_retried(error: Exception, retry: Retry) -> bool:
    if isinstance(error, Retryable):
        return True
    if isinstance(error, Misused | MalformedOutput) or is_of_fleet(error):
        return False
    return isinstance(error, retry.on or Exception)


async def _called(call: StepCall, key: str) -> Any:  # noqa: ANN401  # the function's
    function, kwargs = call.function, dict(call.kwargs)
    if IDEMPOTENCY_KEY not in kwargs and takes_key(function):
        kwargs[IDEMPOTENCY_KEY] = key
    limit = asyncio.timeout(call.timeout)
    try:
        async with limit:
            if inspect.iscoroutinefunction(function):
                return await function(*call.args, **kwargs)
            result = await call_in_thread(function, *call.args, **kwargs)
            return await result if inspect.isawaitable(result) else result
    except (SystemExit, KeyboardInterrupt) as exit_:
        # Either would end the event loop, and with it the worker and all its runs.
        raise AgentExited(
            f"step {call.name!r} raised {type(exit_).__name__}; only its run ends: return, or"
            " raise an Exception"
        ) from exit_
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"step {call.name!r} took more than {call.timeout:g} s") from None
        raise


def takes_key(function: Callable[..., Any]) -> bool:
    """Return whether the function has a parameter for its step's idempotency key."""
    if isinstance(function, partial) and IDEMPOTENCY_KEY in function.keywords:
        return False  # The agent passes one.
    try:
        return IDEMPOTENCY_KEY in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False  # of a function in C
