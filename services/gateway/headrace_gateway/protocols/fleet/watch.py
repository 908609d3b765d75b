"""Watching a list: the changes of the tasks that the list with the same filters contains."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.directory import AgentCard
from headrace.model.messages import ListedTask
from headrace_gateway.call import Call, call_of, check_unchanged, listed_owner
from headrace_gateway.changes import Batch, Topic
from headrace_gateway.list_changes import Item, ListChangeReceiver
from headrace_gateway.protocols.fleet.task_rows import (
    agents_in,
    rows_caller,
    rows_owner,
    states_in,
)
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream, frame

PATH = "/tasks:watch"
"""Path after an agent's path."""

ALL_PATH = "/v1/tasks:watch"

OPERATION = "ListTasks"

_LAST_EVENT_ID = "last-event-id"


@dataclass(frozen=True, slots=True)
class _Filter:
    """What one watcher requested and may see."""

    tenant: str
    agents: frozenset[str]
    owner: str | None
    """None: tasks of all owners."""
    context: str | None
    states: frozenset[str]
    """Empty: all."""

    def takes(self, task: ListedTask) -> bool:
        """Return whether the list contains the task, or contained it before the change."""
        if task.tenant != self.tenant or task.agent not in self.agents:
            return False
        if self.owner is not None and task.owner != self.owner:
            return False
        if task.state is None:  # Its context and its state before are not known any more.
            return True
        if self.context is not None and task.context != self.context:
            return False
        if not self.states or task.before is None:
            return True
        return not self.states.isdisjoint((task.state, task.before))


@dataclass(frozen=True, slots=True)
class _ListWatcher:
    """Who watches."""

    caller: Caller
    card: AgentCard | None
    """The agent that it called; None: it called none."""
    headers: Headers

    def check(self, services: Services) -> None:
        """Check that the watcher may still see what it asked for.

        Raises:
            CredentialsRefused: the credentials have been withdrawn.
            NotPermitted: their permissions have changed.
        """
        check_unchanged(services, self.headers, self.caller, self.card)


class TaskWatch:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Watch over the bus of `services`."""
        most = services.timing.list_spread
        self._services = services
        self._receiver = ListChangeReceiver(
            services.bus,
            spread=lambda: random.uniform(0, most),  # noqa: S311 - nothing to guess
        )

    async def watch(self, request: Request) -> ASGIApp:
        """Return the stream of the changes in an agent's list."""
        call = await call_of(self._services, request, OPERATION)
        wanted = _filter(request, call)
        watched = self._receiver.watched(wanted.tenant, call.agent, wanted.owner)
        watcher = _ListWatcher(call.caller, call.card, request.headers)
        renderer = _WatchRenderer(self._services, self._receiver, wanted, watcher)
        return await self._stream(call.caller, call.cursor, watched, renderer)

    async def watch_all(self, request: Request) -> ASGIApp:
        """Return the stream of the changes in the list of all agents."""
        services, caller = self._services, await rows_caller(self._services, request)
        agents = agents_in(services, request)
        owner = rows_owner(request, caller, agents)
        wanted = _Filter(caller.tenant, frozenset(agents), owner, *_context_and_states(request))
        watched = self._receiver.watched(wanted.tenant, None, wanted.owner)
        watcher = _ListWatcher(caller, None, request.headers)
        renderer = _WatchRenderer(services, self._receiver, wanted, watcher)
        cursor = request.headers.get(_LAST_EVENT_ID) or request.query_params.get("after", "")
        return await self._stream(caller, cursor, watched, renderer)

    async def _stream(
        self, caller: Caller, cursor: str, watched: Topic[Item], renderer: "_WatchRenderer"
    ) -> ASGIApp:
        services = self._services

        async def opening() -> ASGIApp:
            start = self._receiver.start(cursor)
            return HttpStream(services.subscriptions, watched.held(), start, renderer)

        opening_stream = partial(services.stream_limits.with_permit, caller, opening)
        return await services.watch_limits.with_permit(caller, opening_stream)


class _WatchRenderer(Renderer):
    """Changes that pass the filter; after a gap, first that the list must be asked for again."""

    __slots__ = ("_receiver", "_services", "_wanted", "_watcher")

    def __init__(
        self,
        services: Services,
        receiver: ListChangeReceiver,
        wanted: _Filter,
        watcher: _ListWatcher,
    ) -> None:
        self._services, self._receiver = services, receiver
        self._wanted, self._watcher = wanted, watcher

    def render(self, blocks: Sequence[Batch[Item]], after: int) -> Messages:  # noqa: ARG002
        """Return the events of one read.

        Raises:
            CredentialsRefused: the credentials have been withdrawn.
            NotPermitted: their permissions have changed.
        """
        [batch] = blocks
        if batch.missed or None in batch.items:
            # The list that is asked for now contains the other changes, too.
            frames = [self._frame(batch.end, b"{}", "list")]
        else:
            numbered = enumerate(batch.items, batch.end - len(batch.items) + 1)
            frames = [
                self._frame(number, item.body, "change")
                for number, item in numbered
                if item is not None and self._wanted.takes(item.task)
            ]
        if frames:
            self._watcher.check(self._services)
        return frames

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002
        """Return False: a list has no end."""
        return False

    def _frame(self, number: int, data: bytes, name: str) -> bytes:
        return frame(self._receiver.cursor(number), data, name)


def _filter(request: Request, call: Call) -> _Filter:
    agents, owner = frozenset({call.agent}), listed_owner(call)
    return _Filter(call.caller.tenant, agents, owner, *_context_and_states(request))


def _context_and_states(request: Request) -> tuple[str | None, frozenset[str]]:
    return request.query_params.get("contextId") or None, states_in(request)
