"""CopilotKit's routes for threads, which its hook `useThreads` calls.

Based on @copilotkit/core 1.75. Its runtime pushes changes of the list only from a service of
CopilotKit's, so the client asks again.
"""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import ListedThread, ListThreads
from headrace.thread_marks import ThreadMark
from headrace_gateway.json_errors import InputInvalid, read_object
from headrace_gateway.owner_threads import LONGEST_TITLE, MOST, OwnerThreads
from headrace_gateway.protocols.copilotkit.default_agent import known_name
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services

_LARGEST = 16 * 1024
"""Maximum bytes of a change."""


class RuntimeThreads:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """List and change the threads of callers of `services`."""
        self._services, self._threads = services, OwnerThreads(services)

    def pages(self, base: str) -> Sequence[tuple[str, Endpoint, str]]:
        """Return path, endpoint and method of each route under `base`."""
        one = f"{base}/threads/{any_text('thread')}"
        return (
            (f"{base}/threads", self.page, "GET"),
            (f"{one}/archive", self.archive, "POST"),
            (one, self.change, "PATCH"),
            (one, self.delete, "DELETE"),
        )

    async def page(self, request: Request) -> ASGIApp:
        """Return a page of the caller's threads with an agent, all of them without a limit."""
        caller, given = await self._threads.caller(request, "ListThreads"), request.query_params
        if not (stated := given.get("agentId", "")):
            raise InputInvalid("agentId: is required")
        agents = self._threads.agents(request, known_name(self._services, stated))
        limit = given.get("limit")
        threads, token = list[ListedThread](), given.get("cursor", "")
        while True:
            query = ListThreads(
                tenant=caller.tenant,
                owner=caller.owner,
                agents=agents,
                archived=None if given.get("includeArchived") == "true" else False,
                page_size=MOST if limit is None else _limit(limit),
                page_token=token,
            )
            try:
                found = await self._services.state.threads(query)
            except InvalidName as error:
                raise InputInvalid(f"cursor: {error.rule}") from None
            threads += found.threads
            token = found.next_page_token
            if limit is not None or not token:
                break
        shown = [_record(one, stated) for one in threads]
        return json_response({"threads": shown, "nextCursor": token or None}, headers=NO_STORE)

    async def archive(self, request: Request) -> ASGIApp:
        """Archive a thread."""
        caller = await self._threads.caller(request, "ChangeThread")
        return await self._change(request, caller, {"archived": True})

    async def change(self, request: Request) -> ASGIApp:
        """Rename a thread, archive it or restore it."""
        caller, changes = await self._threads.caller(request, "ChangeThread"), dict[str, Any]()
        body = await read_object(request, self._services.body_limits, _LARGEST)
        if "name" in body:
            changes["title"] = _name(body["name"])
        if "archived" in body:
            if not isinstance(body["archived"], bool):
                raise InputInvalid("archived: must be true or false")
            changes["archived"] = body["archived"]
        return await self._change(request, caller, changes)

    async def delete(self, request: Request) -> ASGIApp:
        """Erase a thread with all its tasks."""
        caller = await self._threads.caller(request, "DeleteThread")
        await self._threads.delete(request, caller, request.path_params["thread"])
        return json_response({"success": True}, headers=NO_STORE)

    async def _change(self, request: Request, caller: Caller, changes: Json) -> Response:
        def changed(mark: ThreadMark) -> ThreadMark:
            return mark.model_copy(update=changes)

        thread = request.path_params["thread"]
        found = await self._threads.change(request, caller, thread, changed)
        return json_response(_record(found, found.agents[0]), headers=NO_STORE)


def _record(thread: ListedThread, agent: str) -> Json:
    """Return a thread in CopilotKit's form."""
    return {
        "id": thread.id,
        "agentId": agent,
        "name": thread.title or None,
        "archived": thread.archived,
        "createdAt": thread.created,
        "updatedAt": thread.changed,
        "lastRunAt": thread.changed,
    }


def _limit(stated: str) -> int:
    is_number = stated.isascii() and stated.isdecimal() and len(stated) <= len(str(MOST))
    if not is_number or not 1 <= int(stated) <= MOST:
        raise InputInvalid(f"limit: must be a whole number from 1 to {MOST}")
    return int(stated)


def _name(stated: object) -> str:
    if not isinstance(stated, str) or not 1 <= len(name := stated.strip()) <= LONGEST_TITLE:
        raise InputInvalid(f"name: must have 1 to {LONGEST_TITLE} characters")
    return name
