"""Calls of a run's context or memory that an agent does not await: they do nothing."""

import inspect
import sys
import warnings
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.sdk.active_run import active_run
from headrace.sdk.memory import Memory
from headrace.sdk.source import left_at

if TYPE_CHECKING:
    from headrace.sdk.context import RunContext

type _Hook = Callable[[CoroutineType[Any, Any, Any]], None]

_HOOK = "_warn_unawaited_coroutine"
"""Python calls it for each coroutine that goes without having begun. Its warning would not do: the
application's filters decide on it, and usually show it once for a line."""


class LostCall(NamedTuple):
    """One such call."""

    method: str
    place: str
    """Where its coroutine went, as `declared_at`; empty if that was with the function's end."""


_watched: dict[int, list[LostCall]] = {}
"""What the agent has called so far without await, by the id of the context of each active run."""


def watch(ctx: "RunContext") -> list[LostCall]:
    """Return the calls of `ctx` that are not awaited, with their places; it grows until `forget`.

    Awaited calls cost nothing.
    """
    if vars(warnings).get(_HOOK) is not _notice:
        _Replaced.hook = vars(warnings).get(_HOOK)
        vars(warnings)[_HOOK] = _notice
    calls = _watched[id(ctx)] = []
    return calls


def forget(ctx: "RunContext") -> None:
    """Leave the calls of `ctx` to Python's warning again."""
    _watched.pop(id(ctx), None)


def failed_at(ctx: "RunContext", error: Exception) -> str:
    """Return the method of `ctx` whose coroutine `error` complains of; empty if of none.

    The coroutine is closed, so that nothing warns of it later.
    """
    values = [getattr(error, "obj", None)]
    trace = error.__traceback__
    while trace is not None:
        values += trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    for value in values:
        if isinstance(value, CoroutineType) and _context_of(value) is ctx:
            method = _method_of(value)
            value.close()
            return method
    return ""


def _context_of(coroutine: "CoroutineType[Any, Any, Any]") -> object:
    """Return the context whose method, or whose memory's, is a coroutine that has not begun."""
    frame = coroutine.cr_frame
    if frame is None or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
        return None
    owner = frame.f_locals.get("self")
    return active_run() if isinstance(owner, Memory) else owner


def _method_of(coroutine: "CoroutineType[Any, Any, Any]") -> str:
    frame, name = coroutine.cr_frame, coroutine.__name__
    is_of_memory = frame is not None and isinstance(frame.f_locals.get("self"), Memory)
    return f"memory.{name}" if is_of_memory else name


class _Replaced:
    hook: _Hook | None = None


def _notice(coroutine: "CoroutineType[Any, Any, Any]") -> None:
    # A coroutine that has not begun: its frame has its arguments.
    ctx = _context_of(coroutine)
    calls = _watched.get(id(ctx)) if ctx is not None else None
    if calls is not None:
        place = left_at(sys._getframe(1))  # noqa: SLF001 - as in `source`
        calls.append(LostCall(_method_of(coroutine), place))
    elif coroutine.cr_origin is None:
        # As Python's, which would name this line instead of its caller's.
        message = f"coroutine '{coroutine.__qualname__}' was never awaited"
        warnings.warn(message, RuntimeWarning, stacklevel=2, source=coroutine)
    elif _Replaced.hook is not None:
        _Replaced.hook(coroutine)
