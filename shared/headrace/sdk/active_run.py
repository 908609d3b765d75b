"""The run whose agent is running: for code that a framework calls without its context."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.sdk.context import RunContext

_active: "ContextVar[RunContext | None]" = ContextVar("active_run", default=None)


def active_run() -> "RunContext | None":
    """Return the context of the run that the caller belongs to. None: it belongs to none."""
    return _active.get()


def set_active_run(ctx: "RunContext") -> None:
    """Make `ctx` the active run of the current asyncio task, and of what it starts."""
    _active.set(ctx)
