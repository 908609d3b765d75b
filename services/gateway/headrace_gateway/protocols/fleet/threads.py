"""The threads of an owner: list, search, show, rename, archive, mark as read and delete them."""

from datetime import datetime
from functools import partial
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.log.thread_log import ThreadName
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.model.messages import ListThreads
from headrace.model.moments import EPOCH, microseconds_of
from headrace.thread_marks import ThreadMark
from headrace_gateway.call import check_unchanged, cursor_of
from headrace_gateway.json_errors import InputInvalid, read_object
from headrace_gateway.owner_threads import LONGEST_TITLE, MOST, OwnerThreads, thread_unknown
from headrace_gateway.protocols.fleet.declaration import owner_in
from headrace_gateway.protocols.fleet.parameters import number_in
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream, frame
from headrace_gateway.thread_feed import ThreadEvent, ThreadRenderer, open_feed

PATH = "/v1/threads"
ONE = f"{PATH}/{any_text('thread')}"

_USUAL = 50
_LONGEST_WORDS = 200
_LARGEST = 16 * 1024
"""Maximum bytes of a change."""

_ARCHIVED = {"false": False, "true": True, "any": None}


class ThreadChange(BaseModel):
    """What an owner may change of a thread; members that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[
        str | None,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_TITLE),
    ] = None
    """None: the first words of the thread's first message."""
    archived: bool = Field(default=False, strict=True)
    readTo: datetime = EPOCH  # noqa: N815 - as in JSON
    """Time up to which the owner has read, with a time zone."""

    def applied(self, mark: ThreadMark) -> ThreadMark:
        """Return the owner's mark after this change."""
        changes: Json = {name: getattr(self, name) for name in self.model_fields_set}
        if "readTo" in changes:
            changes["read"] = microseconds_of(changes.pop("readTo"))
        return mark.model_copy(update=changes)


class ThreadPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Ask task state through `services`."""
        self._services, self._threads = services, OwnerThreads(services)

    async def page(self, request: Request) -> ASGIApp:
        """Return a page of threads."""
        caller, given = await self._threads.caller(request, "ListThreads"), request.query_params
        words = given.get("q", "").strip()
        if len(words) > _LONGEST_WORDS:
            raise InputInvalid(f"q: must not be longer than {_LONGEST_WORDS} characters")
        archived = given.get("archived", "false")
        if archived not in _ARCHIVED:
            raise InputInvalid(f"archived: must be one of {', '.join(_ARCHIVED)}")
        query = ListThreads(
            tenant=caller.tenant,
            owner=_listed_owner(request, caller),
            agents=self._threads.agents(request, given.get("agent")),
            words=words,
            archived=_ARCHIVED[archived],
            page_size=number_in(given, "limit", 1, MOST, _USUAL),
            page_token=given.get("after", ""),
        )
        try:
            found = await self._services.state.threads(query)
        except InvalidName as error:
            raise InputInvalid(f"after: {error.rule}") from None
        content: Json = {
            "threads": [one.model_dump() for one in found.threads],
            "total": found.total_size,
            "next": found.next_page_token or None,
        }
        return json_response(content, headers=NO_STORE)

    async def show(self, request: Request) -> ASGIApp:
        """Return one thread."""
        caller = await self._threads.caller(request, "ShowThread")
        name, owner = request.path_params["thread"], _listed_owner(request, caller)
        found = await self._threads.find(request, caller, name, owner)
        return json_response(found.model_dump(), headers=NO_STORE)

    async def change(self, request: Request) -> ASGIApp:
        """Rename, archive or mark a thread as read, and return it."""
        caller = await self._threads.caller(request, "ChangeThread")
        change, name = await _change_in(request, self._services), request.path_params["thread"]
        found = await self._threads.change(request, caller, name, change.applied)
        return json_response(found.model_dump(), headers=NO_STORE)

    async def delete(self, request: Request) -> ASGIApp:
        """Erase a thread with all its tasks."""
        caller = await self._threads.caller(request, "DeleteThread")
        name = request.path_params["thread"]
        await self._threads.delete(request, caller, name)
        return json_response({"deleted": name}, headers=NO_STORE)

    async def follow(self, request: Request) -> ASGIApp:
        """Return the events of all runs of a thread, those that begin later included."""
        services, caller = self._services, await self._threads.caller(request, "FollowThread")
        name, owner = request.path_params["thread"], _listed_owner(request, caller)
        operates = owner != caller.owner

        def may_see(agent: str) -> bool:
            may = caller.operates if operates else caller.may
            return may(agent, "SubscribeToTask")

        async def opening() -> ASGIApp:
            feed = await open_feed(
                services.bus,
                services.links,
                ThreadName(caller.tenant, owner, name),
                cursor_of(request),
            )
            if feed is None:
                raise thread_unknown(name)
            check = partial(check_unchanged, services, request.headers, caller)
            renderer = ThreadRenderer(_row, may_see, check)
            return HttpStream(services.subscriptions, feed.held(), 0, renderer)

        return await services.stream_limits.with_permit(caller, opening)


def _row(event: ThreadEvent) -> bytes:
    """Return a server-sent event with one event of a thread."""
    about = b'"task":"%b","agent":"%b"' % (event.task.encode(), event.agent.encode())
    if not event.line:
        return frame(event.cursor, b"{%b}" % about, "erased")
    row = b'{%b,"generation":%d,"time":"%b","event":%b}' % (
        about,
        event.generation,
        event.time.encode(),
        event.line,
    )
    return frame(event.cursor, row)


async def _change_in(request: Request, services: Services) -> ThreadChange:
    body = await read_object(request, services.body_limits, _LARGEST)
    try:
        change = ThreadChange.model_validate(body)
    except ValidationError as error:
        raise InputInvalid(first_problem(error, "the body")) from None
    if change.readTo.tzinfo is None:
        raise InputInvalid("readTo: must have a time zone")
    if change.readTo < EPOCH:
        raise InputInvalid("readTo: must be a time since 1970")
    return change


def _listed_owner(request: Request, caller: Caller) -> str:
    """Return the owner whose threads are listed: the one in the query, else the caller.

    Raises:
        NotPermitted: it is another one, and the caller is no operator with ListTasks on all agents.
    """
    owner = owner_in(request)
    if owner in {None, caller.owner}:
        return caller.owner
    if not caller.operates("*", "ListTasks"):
        raise NotPermitted("only operators may list the threads of other owners")
    return str(owner)
