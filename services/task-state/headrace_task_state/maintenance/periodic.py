"""Repeat a pass over the tasks of a range until the range's lease is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace_task_state.store import LeaseLost

_log = logging.getLogger(__name__)


async def repeat(look: Callable[[], Awaitable[object]], interval: float, what: str) -> None:
    """Make a pass with `look` every `interval` seconds; return when it raises LeaseLost.

    While NATS or the store is unavailable, the log says that `what` is delayed.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await look()
        except LeaseLost:
            return
        except (BusUnavailable, StateUnavailable) as trouble:
            _log.info("%s is delayed: %s", what, trouble)
