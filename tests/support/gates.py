"""Gates at which agents in other processes wait until the test opens them."""

import asyncio
from pathlib import Path


async def opened(gate: str | Path) -> None:
    """Return once the file `gate` is there; a test opens it with ``Path.touch``."""
    while not await asyncio.to_thread(Path(gate).exists):  # noqa: ASYNC110  # of another process
        await asyncio.sleep(0.02)
