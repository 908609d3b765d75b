"""Tools whose calls are steps: those of the SDK, and functions that are tools of a framework."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any
from uuid import uuid4

from headrace.sdk.active_run import active_run
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.errors import Misdeclared
from headrace.sdk.source import called_at
from headrace.sdk.step_call import IDEMPOTENCY_KEY, StepCall, takes_key
from headrace.sdk.step_values import digest_of


async def call_once(  # noqa: PLR0913, PLR0917  # what a call is
    ctx: RunContext,
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    alike: str,
    timeout: float | None = None,
) -> Any:  # noqa: ANN401  # the function's
    """Return the result of a tool's call, which is a step.

    A model that is asked again in another attempt may call its tools in another order, so calls are
    known by `alike`, a digest of their arguments.
    """
    call = StepCall(
        name=f"tool:{name}",
        function=function,
        args=args,
        kwargs=kwargs,
        timeout=timeout,
        alike=alike or "-",
    )
    return await runtime_of(ctx).steps.run(call)


def once(function: Callable[..., Any], /) -> Callable[..., Awaitable[Any]]:
    """Make each call of a function a step: for tools of frameworks.

    The wrapper is async, and has the function's signature but for `idempotency_key`, a parameter
    that gets the step's key. Calls are known by the function's name and by those of their arguments
    that are JSON, Pydantic models or values such as times. Outside of a run, each call is one of
    its own, with a random key.

    Raises:
        Misdeclared: `function` is no function.
    """
    name: str = getattr(function, "__name__", "")
    if not name:
        raise Misdeclared(f"once needs a function, not {type(function).__name__}{called_at()}")

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the function's
        ctx = active_run()
        if ctx is None:
            if takes_key(function):
                kwargs.setdefault(IDEMPOTENCY_KEY, str(uuid4()))
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        return await call_once(ctx, name, function, args, kwargs, digest_of(args, kwargs))

    _hide_key(call, function)
    return call


def _hide_key(call: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Take the key's parameter from what frameworks read, which would ask models for it."""
    shown = inspect.signature(function)
    own = [one for one in shown.parameters.values() if one.name != IDEMPOTENCY_KEY]
    vars(call)["__signature__"] = shown.replace(parameters=own)
    annotations = inspect.get_annotations(function)
    call.__annotations__ = {k: v for k, v in annotations.items() if k != IDEMPOTENCY_KEY}
