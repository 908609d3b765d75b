"""ADK's session service in the fleet's memory, for agents that call ADK's `Runner`."""

import time
import uuid
from functools import partial
from typing import Any, override
from urllib.parse import unquote

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from headrace.adapters.adk.places import place_of, short_id
from headrace.adapters.adk.session import as_json_event, of_json_event
from headrace.adapters.conversation.journal import Journal
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.memory import MemoryChanged
from headrace.sdk.active_run import required_run
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Retryable

_ROOT = "adk"
_JOURNALS = "_adk_journals"
"""Attribute of a context: its run's journals. An event after a turn's first is one message."""

SHARED = (State.APP_PREFIX, State.USER_PREFIX)
"""Prefixes of the state that sessions share."""


class OwnerState:
    """The state of an app that an owner's conversations share: ``app:`` and ``user:`` keys.

    Owners share nothing, so ``app:`` is the owner's, too.
    """

    def __init__(self, ctx: RunContext, app: str, user: str) -> None:
        """Use the state of `app` and its `user`, for the owner of the task of `ctx`."""
        self._memory, self._folder = ctx.memory.of_owner, place_of("adk-state", app)
        self._keys = {State.APP_PREFIX: f"{self._folder}app"}
        self._keys[State.USER_PREFIX] = f"{place_of('adk-state', app, 'user', user)}state"

    async def get(self) -> Json:
        """Return the state, by key with its prefix."""
        found = await self._memory.read(self._folder)
        state: Json = {}
        for key in self._keys.values():
            state |= json_text.decode(found[key].data) if key in found else {}
        return state

    async def update(self, delta: Json) -> None:
        """Write the keys of `delta` that are shared."""
        for prefix, key in self._keys.items():
            mine = {name: value for name, value in delta.items() if name.startswith(prefix)}
            if mine:
                await self._memory.update(key, partial(_merged, mine), {})


def _merged(delta: Json, held: Json) -> Json:
    return {**held, **delta}


class SessionExists(AlreadyExistsError, Retryable):
    """A session exists. Another run may just have created it, so the run is attempted again."""


class FleetSessionService(BaseSessionService):
    """Keeps ADK's sessions in the conversation's memory, which is erased with the conversation.

    Its sessions are those of the conversation. An attempt that takes over a run finds a session as
    it was before the run. State with the prefixes ``user:`` and ``app:`` is the owner's, in all
    conversations; it stays as it was written. A user or session with an id of more than 90
    characters, as encoded for NATS, is listed by its hash. `adk_agent` needs no session service.
    """

    def __init__(self, ctx: RunContext | None = None) -> None:
        """Use the memory of the run of `ctx`. None: of the run that calls."""
        self._given = ctx

    @property
    def _ctx(self) -> RunContext:
        return self._given or required_run("FleetSessionService")

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        ctx, given = self._ctx, state or {}
        name = (session_id or "").strip() or str(uuid.uuid4())
        own = {key: value for key, value in given.items() if not key.startswith((*SHARED, "temp:"))}
        head = {
            "state": own,
            "time": time.time(),
            "run": f"{ctx.task}/{ctx.run}",
            "attempt": ctx.attempt,
        }
        await self._create(_key(app_name, user_id, name), head)
        await OwnerState(ctx, app_name, user_id).update(given)
        return await self._session(app_name, user_id, name, head)

    async def _create(self, key: str, head: Json) -> None:
        def replaced(found: Json | None) -> Json:
            """Return the session's head, which an earlier attempt at the run may have created."""
            if found and (found["run"] != head["run"] or found["attempt"] == head["attempt"]):
                raise SessionExists("the session exists already; get it instead")
            return head

        await self._ctx.memory.update(key, replaced)

    @override
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        head = await self._ctx.memory.load(_key(app_name, user_id, session_id))
        if head is None:
            return None
        session = await self._session(app_name, user_id, session_id, head)
        session.events = _chosen(session.events, config)
        return session

    async def _session(self, app: str, user: str, name: str, head: Json) -> Session:
        """Return the session with what has happened since it was created."""
        items, own = await self._journal(app, user, name).items_and_own()
        session = Session(id=name, app_name=app, user_id=user, state=head["state"])
        session.events = [of_json_event(item) for item in items]
        for event in session.events:
            session.state.update(event.actions.state_delta or {})
        session.state.update(await OwnerState(self._ctx, app, user).get())
        session.last_update_time = session.events[-1].timestamp if items else head["time"]
        _mark(session, own)
        return session

    @override
    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        named = (key.split("/") for key in await self._ctx.memory.keys(place_of(_ROOT, app_name)))
        heads = [(unquote(key[2]), unquote(key[3])) for key in named if key[-1] == "session"]
        sessions = list[Session]()
        for user, name in heads:
            if user_id is None or user == short_id(user_id):
                found = await self.get_session(app_name=app_name, user_id=user, session_id=name)
                sessions += [] if found is None else [found.model_copy(update={"events": []})]
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await self._ctx.memory.delete(_key(app_name, user_id, session_id))
        await self._journal(app_name, user_id, session_id).clear()

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        held = await OwnerState(self._ctx, app_name, user_id).get()
        prefix = State.USER_PREFIX
        return {k.removeprefix(prefix): v for k, v in held.items() if k.startswith(prefix)}

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        ctx, key = self._ctx, _key(session.app_name, session.user_id, session.id)
        journal, seen = self._journal(session.app_name, session.user_id, session.id), _seen(session)
        # To delete a session changes what the journal would write to.
        if not journal.is_known_to_have(seen) and await ctx.memory.get(key) is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        kept = as_json_event(event)
        try:
            await journal.add([kept], seen)
        except MemoryChanged as changed:
            raise StaleSessionError(
                f"session {session.id} was changed by this run meanwhile; get it again"
            ) from changed
        shared = OwnerState(ctx, session.app_name, session.user_id)
        await shared.update(kept["actions"].get("stateDelta") or {})
        _mark(session, seen + 1)
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    def _journal(self, app: str, user: str, name: str) -> Journal:
        ctx, names = self._ctx, (app, user, name)
        # They live as long as the attempt; a service is often one for the whole process.
        known: dict[tuple[str, ...], Journal] = vars(ctx).setdefault(_JOURNALS, {})
        if names not in known:
            known[names] = Journal(ctx, ctx.memory, _ROOT, *map(short_id, names), "events")
        return known[names]


def _key(app: str, user: str, name: str) -> str:
    return f"{place_of(_ROOT, app, user, name)}session"


def _mark(session: Session, own: int) -> None:
    """Note how many events of the run the session has."""
    session._storage_update_marker = str(own)  # noqa: SLF001  # ADK's field for services


def _seen(session: Session) -> int:
    return int(session._storage_update_marker or 0)  # noqa: SLF001  # as above


def _chosen(events: list[Event], config: GetSessionConfig | None) -> list[Event]:
    """Return the events that `config` asks for."""
    if config is None:
        return events
    if (most := config.num_recent_events) is not None:
        events = events[max(0, len(events) - most) :]
    if (after := config.after_timestamp) is not None:
        events = [event for event in events if event.timestamp >= after]
    return events
