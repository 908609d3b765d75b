"""asyncio with the fix of python/cpython#136234, which its `writelines` lacks up to CPython 3.13.5.

Without it, what a library (redis-py) writes to a lost connection may block any other connection of
the process that gets the same descriptor. The services run on uvloop, tests in asyncio's own loop.
"""

from asyncio import selector_events
from collections.abc import Sequence
from typing import Any

TRANSPORT: Any = vars(selector_events)["_SelectorSocketTransport"]
WRITELINES: Any = TRANSPORT.writelines
"""As this CPython has it."""


def fix_asyncio() -> None:
    """Have `writelines` drop what is written to a lost connection, as `write` does."""
    TRANSPORT.writelines = _writelines


def _writelines(transport: Any, data: Sequence[bytes]) -> None:  # noqa: ANN401 - asyncio's own
    if not transport._conn_lost:
        WRITELINES(transport, data)
