"""Text at the speed of a model."""

import asyncio
import re
from collections.abc import AsyncIterator

PAUSE = 0.02
"""Seconds between two pieces."""

_WORD = re.compile(r"\S+\s*|\s+")


async def paced(text: str) -> AsyncIterator[str]:
    """Yield `text` word by word."""
    for word in _WORD.findall(text):
        yield word
        await asyncio.sleep(PAUSE)
