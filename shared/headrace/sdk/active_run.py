"""The run whose agent is running: for code that a framework calls without its context."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

from headrace.sdk.errors import Misused

if TYPE_CHECKING:
    from headrace.sdk.context import RunContext

ACTIVE: "ContextVar[RunContext | None]" = ContextVar("active_run", default=None)
"""The run of an asyncio task, and of what it starts."""


def active_run() -> "RunContext | None":
    """Return the context of the run that the caller belongs to. None: it belongs to none."""
    return ACTIVE.get()


def required_run(user: str) -> "RunContext":
    """Return the context of the run that the caller belongs to.

    Raises:
        Misused: It belongs to none. `user` names what needs one.
    """
    ctx = active_run()
    if ctx is None:
        raise Misused(
            f"{user} works within an agent's run only; use it in a function that an agent calls"
        )
    return ctx
