"""The threads of an owner: list, search, show, rename, archive, mark as read and delete them."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.log.thread_log import ThreadName
from headrace.model.errors import InvalidName, TaskUnknown
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.model.messages import GetTask, ListedThread, ListTasks, ListThreads
from headrace.model.task import TaskKey
from headrace.thread_marks import ThreadMark, ThreadMarks
from headrace_gateway.call import callable_agents, caller_of, check_unchanged, cursor_of
from headrace_gateway.json_errors import CodedError, InputInvalid, read_object
from headrace_gateway.protocols.fleet.declaration import owner_in
from headrace_gateway.protocols.fleet.parameters import number_in
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream, frame
from headrace_gateway.thread_feed import ThreadEvent, ThreadRenderer, open_feed

PATH = "/v1/threads"
ONE = f"{PATH}/{{thread:path}}"
"""A context id may contain any characters."""

_MOST = 100
_USUAL = 50
_LONGEST_TITLE = 200
_LONGEST_WORDS = 200
_LARGEST = 16 * 1024
"""Maximum bytes of a change."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ARCHIVED = {"false": False, "true": True, "any": None}


class ThreadUnknown(CodedError):
    """The caller has no such thread."""

    code = "thread_unknown"
    status = HTTPStatus.NOT_FOUND


class ThreadChange(BaseModel):
    """What an owner may change of a thread; members that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[
        str | None,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST_TITLE),
    ] = None
    """None: the first words of the thread's first message."""
    archived: bool = Field(default=False, strict=True)
    readTo: datetime = _EPOCH  # noqa: N815 - as in JSON
    """Time up to which the owner has read, with a time zone."""

    def applied(self, mark: ThreadMark) -> ThreadMark:
        """Return the owner's mark after this change."""
        changes: Json = {name: getattr(self, name) for name in self.model_fields_set}
        if "readTo" in changes:
            changes["read"] = (changes.pop("readTo") - _EPOCH) // timedelta(microseconds=1)
        return mark.model_copy(update=changes)


class ThreadPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Ask task state through `services`."""
        self._services, self._marks = services, ThreadMarks(services.bus)

    async def page(self, request: Request) -> ASGIApp:
        """Return a page of threads."""
        caller, given = await self._caller(request, "ListThreads"), request.query_params
        words = given.get("q", "").strip()
        if len(words) > _LONGEST_WORDS:
            raise InputInvalid(f"q: must not be longer than {_LONGEST_WORDS} characters")
        archived = given.get("archived", "false")
        if archived not in _ARCHIVED:
            raise InputInvalid(f"archived: must be one of {', '.join(_ARCHIVED)}")
        query = ListThreads(
            tenant=caller.tenant,
            owner=_listed_owner(request, caller),
            agents=self._agents(request),
            words=words,
            archived=_ARCHIVED[archived],
            page_size=number_in(given, "limit", 1, _MOST, _USUAL),
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
        caller = await self._caller(request, "ShowThread")
        found = await self._find(request, caller, _listed_owner(request, caller))
        return json_response(found.model_dump(), headers=NO_STORE)

    async def change(self, request: Request) -> ASGIApp:
        """Rename, archive or mark a thread as read, and return it."""
        services, caller = self._services, await self._caller(request, "ChangeThread")
        change = await _change_in(request, services)
        thread = await self._find(request, caller, caller.owner)
        changing = self._marks.change(caller.tenant, caller.owner, thread.id, change.applied)
        await services.background.run(changing)
        found = await self._find(request, caller, caller.owner)
        return json_response(found.model_dump(), headers=NO_STORE)

    async def delete(self, request: Request) -> ASGIApp:
        """Erase a thread with all its tasks."""
        caller = await self._caller(request, "DeleteThread")
        thread = await self._find(request, caller, caller.owner)
        for agent in thread.agents:
            if not caller.may(agent, "DeleteTask"):
                raise NotPermitted(f"your roles do not permit DeleteTask on agent {agent!r}")
        await self._services.background.run(self._delete(caller, thread.id))
        return json_response({"deleted": thread.id}, headers=NO_STORE)

    async def follow(self, request: Request) -> ASGIApp:
        """Return the events of all runs of a thread, those that begin later included."""
        services, caller = self._services, await self._caller(request, "FollowThread")
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
                raise _unknown(name)
            check = partial(check_unchanged, services, request.headers, caller)
            renderer = ThreadRenderer(_row, may_see, check)
            return HttpStream(services.subscriptions, feed.held(), 0, renderer)

        return await services.stream_limits.with_permit(caller, opening)

    async def _delete(self, caller: Caller, thread: str) -> None:
        services = self._services
        # Others may begin meanwhile.
        while tasks := await self._tasks(caller, thread):
            for key in tasks:
                await services.access.record(
                    caller, key.agent, "DeleteTask", key.task, operates=False
                )
            await asyncio.gather(*(services.deleter.delete(caller, key) for key in tasks))
        await self._marks.delete(caller.tenant, caller.owner, thread)

    async def _tasks(self, caller: Caller, thread: str) -> list[TaskKey]:
        """Return the keys of up to a page of the thread's tasks, with those of its child tasks."""
        tenant, owner = caller.tenant, caller.owner
        query = ListTasks(
            tenant=tenant, owner=owner, context=thread, page_size=_MOST, history_length=0
        )
        state = self._services.state
        keys = list[TaskKey]()
        for task in (await state.list(query)).tasks:
            found = GetTask(tenant=tenant, owner=owner, task=task["id"], history_length=0)
            try:
                keys.append(TaskKey(tenant, (await state.get(found)).agent, task["id"]))
            except TaskUnknown:
                continue
        return keys

    async def _caller(self, request: Request, operation: str) -> Caller:
        caller = caller_of(self._services, request)
        await self._services.access.check_anyone(caller, operation)
        return caller

    def _agents(self, request: Request) -> list[str] | None:
        """Return the agents whose threads the request may list. None: all."""
        permitted = {card.name for card in callable_agents(self._services, request, "ListTasks")}
        if (agent := request.query_params.get("agent")) is not None:
            return [agent] if agent in permitted else []
        every = {card.name for card in self._services.directory.cards()}
        return None if permitted == every else sorted(permitted)

    async def _find(self, request: Request, caller: Caller, owner: str) -> ListedThread:
        thread = request.path_params["thread"]
        query = ListThreads(
            tenant=caller.tenant,
            owner=owner,
            agents=self._agents(request),
            context=thread,
            page_size=1,
        )
        found = (await self._services.state.threads(query)).threads
        if not found:
            raise _unknown(thread)
        return found[0]


def _unknown(thread: str) -> ThreadUnknown:
    return ThreadUnknown(f"thread {thread[:_LONGEST_WORDS]!r} does not exist")


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
    if change.readTo < _EPOCH:
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
