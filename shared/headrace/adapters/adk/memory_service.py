"""ADK's memory service in the fleet's memory."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import override

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session

from headrace.adapters.adk.places import place_of
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.active_run import required_run
from headrace.sdk.context import RunContext
from headrace.sdk.memory import Memory

_ROOT = "adk-memory"
_MOST = 10
"""Memories that a search returns."""


class FleetMemoryService(BaseMemoryService):
    """Keeps what ADK's agents remember in the owner's memory, for all conversations.

    A search finds the events that have most words of the query, as ADK's in-memory service does.
    """

    def __init__(self, ctx: RunContext | None = None) -> None:
        """Use the memory of the run of `ctx`. None: of the run that calls."""
        self._given = ctx

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        key = _key(session.app_name, session.user_id, session.id)
        await self._memory.save(key, _entries(session.events))

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        del custom_metadata
        key, more = _key(app_name, user_id, session_id or ""), _entries(events)
        await self._memory.update(key, lambda held: {**held, **more}, {})

    @override
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        wanted = _words(query)
        kept = await self._memory.read(place_of(_ROOT, app_name, user_id))
        entries = [one for value in kept.values() for one in json_text.decode(value.data).values()]
        rated = [(len(wanted & _words(_text(one))), one) for one in entries]
        found = sorted((each for each in rated if each[0]), key=lambda each: -each[0])
        memories = [
            MemoryEntry.model_validate_json(json_text.encode(one)) for _, one in found[:_MOST]
        ]
        return SearchMemoryResponse(memories=memories)

    @property
    def _memory(self) -> Memory:
        return (self._given or required_run(type(self).__name__)).memory.of_owner


def _key(app: str, user: str, session: str) -> str:
    return f"{place_of(_ROOT, app, user, session)}events"


def _entries(events: Iterable[Event]) -> dict[str, Json]:
    """Return what is remembered of events, by their ids."""
    found = dict[str, Json]()
    for event in events:
        content = event.content
        if content is not None and any(part.text for part in content.parts or ()):
            time = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
            entry = MemoryEntry(id=event.id, author=event.author, timestamp=time, content=content)
            found[event.id] = entry.model_dump(mode="json", exclude_none=True)
    return found


def _text(entry: Json) -> str:
    return " ".join(part.get("text") or "" for part in entry["content"]["parts"])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
