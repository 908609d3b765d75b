"""The threads of an owner: found, changed and deleted, for every protocol that shows them."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import Request

from headrace.model.messages import FindTasks, ListedThread, ListThreads
from headrace.model.task import TaskKey
from headrace.thread_marks import ThreadMark, ThreadMarks
from headrace_gateway.call import callable_agents, caller_of
from headrace_gateway.json_errors import CodedError
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.services import Services

MOST = 100
"""Maximum threads of a page."""

LONGEST_TITLE = 200
"""Maximum characters of a title that an owner sets."""

_LONGEST_SHOWN = 200


class ThreadUnknown(CodedError):
    """The caller has no such thread."""

    code = "thread_unknown"
    status = HTTPStatus.NOT_FOUND


def thread_unknown(thread: str) -> ThreadUnknown:
    """Return the error that names the thread."""
    return ThreadUnknown(f"thread {thread[:_LONGEST_SHOWN]!r} does not exist")


class OwnerThreads:
    """The threads that callers have."""

    def __init__(self, services: Services) -> None:
        """Ask task state through `services`."""
        self._services, self._marks = services, ThreadMarks(services.bus)

    async def caller(self, request: Request, operation: str) -> Caller:
        """Return the request's caller, whose `operation` counts against its rates.

        Raises:
            CredentialsMissing, CredentialsRefused, RateLimited: as `Access.check_anyone`.
        """
        caller = caller_of(self._services, request)
        await self._services.access.check_anyone(caller, operation)
        return caller

    def agents(self, request: Request, agent: str | None = None) -> list[str] | None:
        """Return the agents whose threads the caller may list: all, or `agent`. None: no limit."""
        permitted = {card.name for card in callable_agents(self._services, request, "ListTasks")}
        if agent is not None:
            return [agent] if agent in permitted else []
        every = {card.name for card in self._services.directory.cards()}
        return None if permitted == every else sorted(permitted)

    async def find(
        self, request: Request, caller: Caller, thread: str, owner: str | None = None
    ) -> ListedThread:
        """Return a thread of the owner, else of the caller.

        Raises:
            ThreadUnknown: there is none, or none with an agent that the caller may list.
            StateUnavailable: try again.
        """
        agents = self.agents(request)
        found = await self._find(caller.tenant, owner or caller.owner, thread, agents)
        if not found:
            raise thread_unknown(thread)
        return found[0]

    async def _find(
        self, tenant: str, owner: str, thread: str, agents: list[str] | None
    ) -> list[ListedThread]:
        query = ListThreads(tenant=tenant, owner=owner, agents=agents, context=thread, page_size=1)
        return (await self._services.state.threads(query)).threads

    async def change(
        self,
        request: Request,
        caller: Caller,
        thread: str,
        change: Callable[[ThreadMark], ThreadMark],
    ) -> ListedThread:
        """Change what the caller has set of its thread, and return that; raises as `find`."""
        found = await self.find(request, caller, thread)
        changing = self._marks.change(caller.tenant, caller.owner, found.id, change)
        await self._services.background.run(changing)
        return await self.find(request, caller, thread)

    async def delete(self, request: Request, caller: Caller, thread: str) -> None:
        """Erase the caller's thread with all its tasks; raises as `find`.

        What the caller has set of a thread that has no task any more is erased, too.

        Raises:
            NotPermitted: the caller may not delete tasks of one of its agents.
        """
        try:
            found = await self.find(request, caller, thread)
        except ThreadUnknown:
            if not await self._find(caller.tenant, caller.owner, thread, None):
                forgetting = self._marks.delete(caller.tenant, caller.owner, thread)
                await self._services.background.run(forgetting)
            raise
        for agent in found.agents:
            if not caller.may(agent, "DeleteTask"):
                raise NotPermitted(f"your roles do not permit DeleteTask on agent {agent!r}")
        await self._services.background.run(self._delete(caller, found.id))

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
        query = FindTasks(tenant=tenant, owner=owner, context=thread, page_size=MOST)
        rows = (await self._services.state.find(query)).tasks
        return [TaskKey(tenant, row.agent, row.id) for row in rows]
