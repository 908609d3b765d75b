"""A chat of one caller with an agent: what a request begins or goes on with, and what is newest.

The chat's id is the A2A context. As contexts are each caller's own, so are chats.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

from headrace.log import first_entry, last_entry, replay
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.events import Json
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace_gateway.call import Call
from headrace_gateway.context_tasks import ContextTasks
from headrace_gateway.feeds import HeldFeed
from headrace_gateway.json_errors import CodedError
from headrace_gateway.protocols.ai_sdk.fold import Asked, ChatFold
from headrace_gateway.protocols.ai_sdk.history import messages_of
from headrace_gateway.protocols.ai_sdk.request import REGENERATE, ChatRequest, answer_part
from headrace_gateway.refusals import GenerationMismatch, TaskEnded
from headrace_gateway.services import Services
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.ids import mint_message_id
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from headrace_gateway.tasks.terms import check_parts, terms

_MOST_WAITING = 20
"""Tasks that wait for input and are read: the newest ones, as a chat may have been left in many."""


_RECENT = 50
"""Tasks whose messages a chat shows: the latest ones."""


class NothingAsked(CodedError):
    """The results and approvals of the request are not what a task of the chat waits for."""

    code = "nothing_asked"
    status = HTTPStatus.CONFLICT


class Waiting(NamedTuple):
    """A task that waits for input."""

    key: TaskKey
    asked: Asked
    generation: int
    """At which it waits: an answer counts only while the task is there."""


class AgentChat:
    """One chat."""

    def __init__(self, services: Services, call: Call, chat: str) -> None:
        """Use the chat with that id."""
        self._services, self._call, self._chat = services, call, chat
        self._tasks = ContextTasks(services, call, chat)

    async def submit(self, request: ChatRequest) -> AcceptedInput:
        """Accept a request, or find it accepted: it is sent again if its answer is lost.

        Raises:
            NothingAsked: its results and approvals are not those that a task waits for.
            ThreadBusy: the agent accepts no other run until the running one ends.
            A2AError, HeadraceError: as `check_parts` and `Submissions.submit`.
        """
        if request.message is None:
            return await self._answer(request)
        check_parts(request.message, self._call.card)
        waiting, busy = await asyncio.gather(self._waiting(), self._tasks.at_work())
        # A chat at rest begins a task, and what has begun one under the key is found then.
        may_be_repeated = waiting or busy or not request.key()
        if may_be_repeated and (going_on := await self._sent_before(request)) is not None:
            return going_on
        plain = next((one for one in waiting if one.asked.is_plain), None)
        if plain is not None:
            return await self._submit(request, request.message, plain.key)
        message, ahead = request.message, await self._tasks.make_way(busy) if busy else []
        if request.trigger == REGENERATE:
            message = {**message, "messageId": mint_message_id()}
        return await self._submit(request, message, ahead=ahead)

    async def newest(self) -> HeldFeed | None:
        """Return the feed of the task at work that began last or, if none is, of the latest task.

        None: the chat has no task.

        Raises:
            StateUnavailable, BusUnavailable: try again.
        """
        at_work = await self._tasks.at_work()
        latest = at_work or [task["id"] async for task in self._tasks.newest_first(1)]
        keys = [self._tasks.key(task) for task in latest]
        if len(keys) > 1:
            firsts = await asyncio.gather(*(first_entry(self._services.bus, key) for key in keys))
            began = {key: first.time for key, first in zip(keys, firsts, strict=True) if first}
            keys = sorted(began, key=began.__getitem__, reverse=True)
        try:
            return await self._services.feeds.open(keys[0]) if keys else None
        except (TaskUnknown, LogLost):
            return None  # It has reached its retention since.

    async def messages(self) -> list[Json]:
        """Return the messages of the chat's latest tasks, oldest first.

        Raises:
            StateUnavailable, BusUnavailable: try again.
        """
        keys = [self._tasks.key(task["id"]) async for task in self._tasks.newest_first(_RECENT)]
        logs = [(key, log) for key in keys if (log := await self._log(key))]
        logs.sort(key=lambda found: (found[1][0].time, found[0].task))
        return [message for key, log in logs for message in messages_of(key.task, log)]

    async def stop(self) -> list[str]:
        """Cancel the tasks at work; return those whose end the log has confirmed as this cancel's.

        Raises:
            StateUnavailable, BusUnavailable: try again.
        """
        tasks = await self._tasks.at_work()
        stopped = await asyncio.gather(*map(self._cancel, tasks))
        return [task for task, is_stopped in zip(tasks, stopped, strict=True) if is_stopped]

    async def _cancel(self, task: str) -> bool:
        try:
            await self._services.canceler.cancel(self._call.caller, self._tasks.key(task))
        except TaskEnded:
            return False
        return True

    async def _sent_before(self, request: ChatRequest) -> AcceptedInput | None:
        """Return what the same request began earlier.

        Another answer is only asked for when there is one: a page whose first request got no answer
        asks for another one, too.
        """
        accepted = await self._replay(request, request.key() or request.original_key())
        if accepted is None or request.trigger != REGENERATE or request.regenerates:
            return accepted
        async with accepted as held:
            return None if held.feed.run_ended else accepted

    async def _answer(self, request: ChatRequest) -> AcceptedInput:
        """Continue the task that waits for the results and approvals of a request."""
        for key, asked, generation in await self._waiting():
            names = {**asked.calls, **asked.approvals}
            if names and names.keys() <= request.answers.keys():
                content = [answer_part(request.answers[name], own) for name, own in names.items()]
                message = {"messageId": mint_message_id(), "role": "ROLE_USER", "parts": content}
                with suppress(GenerationMismatch):  # Another window has answered meanwhile.
                    return await self._submit(request, message, key, if_generation=generation)
        if (earlier := await self._replay(request, request.key())) is not None:
            return earlier
        rule = "must have a result or decision for each that a task of the chat waits for"
        raise NothingAsked(f"messages: the last one's tool parts {rule}, and none waits for these")

    async def _replay(self, request: ChatRequest, key: str) -> AcceptedInput | None:
        return await self._services.submissions.replay(self._keyed(request, key))

    def _keyed(self, request: ChatRequest, key: str) -> KeyedRequest:
        call = self._call
        return KeyedRequest(call.caller, call.agent, key, request.fingerprint())

    async def _submit(
        self,
        request: ChatRequest,
        message: Json,
        task: TaskKey | None = None,
        ahead: list[str] | None = None,
        if_generation: int | None = None,
    ) -> AcceptedInput:
        call = self._call
        metadata = request.metadata | call.marks | {events.TASK_ALREADY_SENT: True}
        metadata |= terms(call.caller, call.card, request.wishes, "headrace.").metadata()
        if ahead:
            metadata[events.WAIT_FOR] = ahead
        key = request.key()
        submission = Submission(
            call.caller,
            call.agent,
            message,
            self._chat,
            metadata,
            None if task is None else task.task,
            keyed=self._keyed(request, key) if key else None,
            if_generation=if_generation,
        )
        return await self._services.submissions.submit(submission)

    async def _waiting(self) -> list[Waiting]:
        """Return the chat's tasks that wait for input, the latest first."""
        tasks = self._tasks.newest_first(_MOST_WAITING, states=[INPUT_REQUIRED])
        found = [await self._read(self._tasks.key(task["id"])) async for task in tasks]
        return [one for one in found if one is not None]

    async def _read(self, key: TaskKey) -> Waiting | None:
        """Return what a task waits for; None: it does not wait any more."""
        fold, generation = ChatFold(key.task), 0
        for entry in await self._log(key):
            fold.read(entry)
            generation = entry.last_generation
        return None if fold.asked is None else Waiting(key, fold.asked, generation)

    async def _log(self, key: TaskKey) -> list[Entry]:
        """Return the entries of a task's log; none if they have reached their retention."""
        last = await last_entry(self._services.bus, key)
        if last is None:
            return []
        log, links = replay(self._services.bus, key, 0, last.sequence), self._services.links
        try:
            return [links.entry(entry) async for batch in log for entry in batch]
        except LogLost:
            return []
