"""A caller's tasks in one context, and which of them a new task there must wait for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from http import HTTPStatus

from headrace.log import last_entry
from headrace.log.thread import OPEN, LogEnd, ThreadKey, open_logs
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.messages import ListTasks, TasksFound
from headrace.model.task import SUBMITTED, WORKING, TaskKey
from headrace.tasks.delayed_runs import waits_for_start
from headrace_gateway.call import Call
from headrace_gateway.json_errors import CodedError
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

_MOST = 100
"""Maximum open tasks read per state: the newest ones, which themselves wait for older ones."""


class ThreadBusy(CodedError):
    """The agent is running in the context and accepts no other run until it ends."""

    code = "thread_busy"
    status = HTTPStatus.CONFLICT


class ContextTasks:
    """The tasks of one context of a caller with an agent."""

    def __init__(self, services: Services, call: Call, context: str) -> None:
        """Read the context with that id."""
        self._services, self._call, self._context = services, call, context
        self.may_refuse = call.card.follow_ups == "reject"
        """Whether the agent accepts no other run until the running one ends."""

    async def newest_first(
        self, most: int | None = None, *, states: Sequence[str] = ()
    ) -> AsyncIterator[Json]:
        """Yield the tasks, the one with the newest status first.

        Raises:
            StateUnavailable: try again.
        """
        token, left = "", most
        while left is None or left > 0:
            page = await self._page(min(100, left or 100), token, states=states)
            for task in page.tasks:
                yield task
            token, left = page.next_page_token, left and left - len(page.tasks)
            if not token:
                return

    def key(self, task: str) -> TaskKey:
        """Return the key of a task of the caller."""
        return task_key(self._services.settings, self._call.caller, self._call.agent, task)

    async def make_way(self, busy: list[str]) -> list[str]:
        """Return which of the `busy` tasks a new task must wait for, as the agent's policy says.

        An interrupting agent's tasks are canceled and not in the list.

        Raises:
            ThreadBusy: the agent accepts no other run until the running one ends.
            StateUnavailable, BusUnavailable: try again.
        """
        call = self._call
        if self.may_refuse:
            rule = "has an active run, and its agent allows one at a time"
            raise ThreadBusy(f"thread {self._context} {rule}")
        if call.card.follow_ups != "interrupt":
            return busy
        for task in busy:
            with suppress(TaskEnded):
                await self._services.canceler.cancel(call.caller, self.key(task))
        return []

    async def at_work(self) -> list[str]:
        """Return the tasks that are working or waiting for a worker, without delayed ones.

        Raises:
            StateUnavailable, BusUnavailable: try again.
        """
        caller, agent = self._call.caller, self._call.card.name
        thread = ThreadKey(caller.tenant, agent, caller.owner, self._context)
        ends = await open_logs(self._services.bus, thread)
        if ends is None:
            ends = await self._listed_ends()
        return [end.key.task for end in ends if _is_at_work(end.last)]

    async def _listed_ends(self) -> list[LogEnd]:
        """Return the ends of the logs that task state lists as open."""
        keys = [self.key(task["id"]) for task in await self.open(_MOST)]
        lasts = await asyncio.gather(*(last_entry(self._services.bus, key) for key in keys))
        ends = zip(keys, lasts, strict=True)
        return [LogEnd(key, last) for key, last in ends if last is not None]

    async def open(self, most: int) -> list[Json]:
        """Return the tasks that are submitted or working, each once.

        There are at most `most` (1 to 100) in each state, those with the newest status.
        """
        # In one query: lists wait for the view.
        page = await self._page(most, states=[SUBMITTED, WORKING])
        tasks = page.tasks
        # Submitted ones first: a task that starts between two queries is in both, not in neither.
        for state in (SUBMITTED, WORKING) if page.next_page_token else ():
            tasks = tasks + (await self._page(most, states=[state])).tasks
        return list({task["id"]: task for task in tasks}.values())

    async def _page(self, size: int, token: str = "", *, states: Sequence[str] = ()) -> TasksFound:
        query = ListTasks(
            tenant=self._call.caller.tenant,
            owner=self._call.caller.owner,
            agents=[self._call.agent],
            context=self._context,
            page_size=size,
            page_token=token,
            history_length=0,
            states=list(states),
        )
        return await self._services.state.list(query)


def _is_at_work(last: Entry) -> bool:
    return last.stamp.state in OPEN and not waits_for_start(last)
