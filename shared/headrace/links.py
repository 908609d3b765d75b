"""Showing the links of files as addresses that clients can follow (see `headrace.files`)."""

from dataclasses import replace

from headrace.entry import Entry
from headrace.files import SCHEME


class Links:
    """Puts an address before the links of files, in JSON as our own encoders write it.

    A string's quotes are escaped, so what is looked for can only be a member ``url`` itself.
    """

    def __init__(self, base: str) -> None:
        """Show files under ``<base>/v1/agents/…``."""
        self._mark = f'"url":"{SCHEME}'.encode()
        self._shown = f'"url":"{base}/v1/agents/'.encode()

    def shown(self, text: bytes) -> bytes:
        """Return the JSON with links as addresses."""
        return text.replace(self._mark, self._shown)

    def entry(self, entry: Entry) -> Entry:
        """Return the entry with links as addresses: itself, if it has none."""
        mark = self._mark
        for line in entry.lines:
            if mark in line:
                return replace(entry, lines=[self.shown(line) for line in entry.lines])
        return entry
