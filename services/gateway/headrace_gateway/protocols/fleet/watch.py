"""Watching a list: the changes of the tasks that the list with the same filters contains."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.messages import ListedTask
from headrace.model.task import STATES
from headrace_gateway.call import Call, call_of, check_unchanged, listed_owner
from headrace_gateway.changes import Batch
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.list_changes import Item, ListChangeReceiver
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream, frame

PATH = "/tasks:watch"
"""Path after an agent's path."""

OPERATION = "ListTasks"


@dataclass(frozen=True, slots=True)
class _Filter:
    """What one watcher requested and may see."""

    tenant: str
    agent: str
    owner: str | None
    """None: tasks of all owners."""
    context: str | None
    status: str | None

    def takes(self, task: ListedTask) -> bool:
        """Return whether the list contains the task, or contained it before the change."""
        if (task.tenant, task.agent) != (self.tenant, self.agent):
            return False
        if self.owner is not None and task.owner != self.owner:
            return False
        if task.state is None:  # Its context and its state before are not known any more.
            return True
        if self.context is not None and task.context != self.context:
            return False
        return self.status in {None, task.state, task.before} or task.before is None


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
        """Return the stream of changes."""
        services = self._services
        call = await call_of(services, request, OPERATION)
        wanted = _filter(request, call)

        async def opening() -> ASGIApp:
            receiver, start = self._receiver, self._receiver.start(call.cursor)
            watched = receiver.watched(wanted.tenant, wanted.agent, wanted.owner)
            renderer = _WatchRenderer(services, self._receiver, wanted, call, request.headers)
            return HttpStream(services.subscriptions, watched.held(), start, renderer)

        opening_stream = partial(services.stream_limits.with_permit, call.caller, opening)
        return await services.watch_limits.with_permit(call.caller, opening_stream)


class _WatchRenderer(Renderer):
    """Changes that pass the filter; after a gap, first that the list must be asked for again."""

    __slots__ = ("_caller", "_card", "_headers", "_receiver", "_services", "_wanted")

    def __init__(
        self,
        services: Services,
        receiver: ListChangeReceiver,
        wanted: _Filter,
        call: Call,
        headers: Headers,
    ) -> None:
        self._services, self._receiver, self._wanted = services, receiver, wanted
        self._caller, self._card, self._headers = call.caller, call.card, headers

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
            check_unchanged(self._services, self._headers, self._caller, self._card)
        return frames

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002
        """Return False: a list has no end."""
        return False

    def _frame(self, number: int, data: bytes, name: str) -> bytes:
        return frame(self._receiver.cursor(number), data, name)


def _filter(request: Request, call: Call) -> _Filter:
    query, caller = request.query_params, call.caller
    owner = listed_owner(call)
    status = query.get("status") or None
    if status is not None and status not in STATES:
        raise InputInvalid(f"status: must be one of {', '.join(sorted(STATES))}")
    return _Filter(caller.tenant, call.agent, owner, query.get("contextId") or None, status)
