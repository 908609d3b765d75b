"""Showing the links of files as addresses that clients can follow (see `headrace.files`)."""

from dataclasses import replace
from typing import Any

import orjson

from headrace.entry import Entry
from headrace.events import QUEUED, Json
from headrace.files import LINK, SCHEME

_MARK = f'"url":"{SCHEME}'.encode()
"""Where it is missing there is no link: our encoders write no space, and escape quotes in strings.
Only JSON that has it is parsed."""


class Links:
    """Puts an address before the links of files: where a Part has its URL, and nowhere else."""

    def __init__(self, base: str) -> None:
        """Show files under ``<base>/v1/agents/…``."""
        self._base = f"{base}/v1/agents/"

    def shown(self, text: bytes) -> bytes:
        """Return the JSON of events, messages or tasks with links as addresses."""
        if _MARK not in text:
            return text
        found = orjson.loads(text)
        self._show(found)
        return orjson.dumps(found)

    def entry(self, entry: Entry) -> Entry:
        """Return the entry with links as addresses: itself, if it has none."""
        for line in entry.lines:
            if _MARK in line:
                return replace(entry, lines=[self.shown(line) for line in entry.lines])
        return entry

    def _show(self, found: Any) -> None:  # noqa: ANN401  # any JSON
        if isinstance(found, list):
            for one in found:
                self._show(one)
        elif isinstance(found, dict):
            for name, value in found.items():
                if name == "parts" and isinstance(value, list):
                    self._show_parts(value)
                elif name == "metadata":
                    # Metadata and data are what somebody said, except for a message that waits.
                    self._show(value.get(QUEUED) if isinstance(value, dict) else None)
                else:
                    self._show(value)

    def _show_parts(self, parts: list[Json]) -> None:
        for part in parts:
            url = part.get("url")
            if isinstance(url, str) and LINK.fullmatch(url):
                part["url"] = self._base + url.removeprefix(SCHEME)
