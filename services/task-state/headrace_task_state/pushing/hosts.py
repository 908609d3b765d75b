"""How much may be under way to one host: a slow one waits for itself, not for others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

MOST_PER_HOST = 16
"""Requests to one host and port at a time."""


class Hosts:
    """Counts what is under way."""

    def __init__(self, most: int = MOST_PER_HOST) -> None:
        """Let `most` requests to one host be under way."""
        self._most = most
        self._busy = Counter[str]()

    @contextmanager
    def place(self, url: str) -> Iterator[bool]:
        """Take a place for the length of a block; False: there is none now."""
        host = urlsplit(url).netloc.lower()
        if self._busy[host] >= self._most:
            yield False
            return
        self._busy[host] += 1
        try:
            yield True
        finally:
            self._busy[host] -= 1
            if not self._busy[host]:
                del self._busy[host]
