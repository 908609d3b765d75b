"""File links as URLs for clients (`headrace.jetstream.objects`)."""

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.events import QUEUED, Json
from headrace.model.file_links import LINK, SCHEME
from headrace.model.user_content import stored_sources

SERVED: ContextVar[Any] = ContextVar("served", default=None)
"""What tells at which address the client that is served reaches its files. None: nothing does."""

MARK = f'"{SCHEME}'.encode()
"""JSON without this text contains no link and is not parsed."""


class Links:
    """Converts file links to URLs.

    Links occur as the URL of a Part and in the conversation that an AG-UI client sent, nowhere
    else.
    """

    def __init__(self, base: str) -> None:
        """Convert links to URLs under ``<base>/v1/agents/…``."""
        self._base = f"{base}/v1/agents/"

    def shown(self, text: bytes) -> bytes:
        """Return the JSON of events, messages or tasks with its links as URLs."""
        if MARK not in text:
            return text
        found = json_text.decode(text)
        self._show(found)
        return json_text.encode(found)

    def stored(self, url: object) -> str | None:
        """Return the link whose URL is `url`. None: `url` is not the URL of a link."""
        if not isinstance(url, str) or not url.startswith(self._base):
            return None
        link = SCHEME + url.removeprefix(self._base)
        return link if LINK.fullmatch(link) else None

    def entry_for(self, served: Any, entry: Entry) -> Entry:  # noqa: ANN401, ARG002 - for subclasses
        """Return the entry as `entry` does, for the client for which `SERVED` was `served`."""
        return self.entry(entry)

    def entry(self, entry: Entry) -> Entry:
        """Return the entry with its links as URLs, or the entry itself if it has none."""
        for line in entry.lines:
            if MARK in line:
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
                    self._show_metadata(value)
                else:
                    self._show(value)

    def _show_metadata(self, metadata: Any) -> None:  # noqa: ANN401  # any JSON
        """Convert the links of a queued message and of a conversation."""
        if not isinstance(metadata, dict):
            return
        self._show(metadata.get(QUEUED))
        for source in stored_sources(metadata):
            self._show_link(source, "value")

    def _show_parts(self, parts: list[Json]) -> None:
        for part in parts:
            self._show_link(part, "url")

    def _show_link(self, holder: Json, name: str) -> None:
        url = holder.get(name)
        if isinstance(url, str) and LINK.fullmatch(url):
            holder[name] = self._base + url.removeprefix(SCHEME)
