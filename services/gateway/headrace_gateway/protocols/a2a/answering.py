"""SendMessage: the message into the log, and one answer when the task rests."""

from collections.abc import Sequence
from functools import partial

from headrace.model.entry import ANSWERED, Entry
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask
from headrace.model.task import INTERRUPTED, TERMINAL
from headrace_gateway.call import Call
from headrace_gateway.feeds import Block, Feed
from headrace_gateway.protocols.a2a.accepting import accept, answering
from headrace_gateway.protocols.a2a.parameters import SendMessage
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.streaming.wait import Wait
from headrace_gateway.tasks.accepted import Accepted
from headrace_gateway.tasks.unanswered import Stopping

_RESTS = TERMINAL | INTERRUPTED | {ANSWERED}


async def send_message(services: Services, call: Call, params: object) -> Json:
    """Accept the message and return a SendMessageResponse: a Task, or a bare Message.

    Unless it is to return immediately it waits until the task is over or waits for its user.

    Raises:
        Malformed: the parameters are not the operation's.
        ClientDisconnect, Unanswered: nobody waits any more, or nothing more can be read; the task
            goes on.
        A2AError, HeadraceError: as `accept`.
    """
    asked = SendMessage.read(params)
    accepted = await accept(services, call, asked)
    with answering(call, accepted):
        if accepted.snapshot is None:
            return await _begun(services, call, accepted, asked)
        return {"task": await _continued(services, call, accepted, asked)}


class _Rest(Renderer):
    """Shows nothing, and is over when the task waits for somebody or is over."""

    def __init__(self, feed: Feed, *, at_once: bool = False) -> None:
        """Wait until the task rests or, `at_once`, for what `feed` has now."""
        self.newest: Entry | None = None
        self._feed, self._at_once = feed, at_once

    def render(self, blocks: Sequence[Block], after: int) -> Messages:  # noqa: ARG002 - shows none
        """Note how far the log goes."""
        self.newest = blocks[-1].entry
        return ()

    def is_over(self, *, rests: bool) -> bool:  # noqa: ARG002 - AUTH_REQUIRED answers, too
        """Tell whether the task rests, as far as anybody knows."""
        newest = self.newest
        if newest is None or newest.last_generation < self._feed.head:
            return False
        return self._at_once or newest.stamp.state in _RESTS


class _Answer(_Rest):
    """Collects the task as it is then."""

    def __init__(self, feed: Feed, *, at_once: bool) -> None:
        """See `_Rest`."""
        super().__init__(feed, at_once=at_once)
        self.fold = TaskFold()

    def render(self, blocks: Sequence[Block], after: int) -> Messages:
        """Fold the entries."""
        for block in blocks:
            self.fold.apply_entry(block.entry)
        return super().render(blocks, after)


async def _begun(services: Services, call: Call, accepted: Accepted, asked: SendMessage) -> Json:
    """Fold a new task from its log, all of which passes here: no need to ask for it."""
    answer = _Answer(accepted.feed, at_once=asked.return_immediately)
    await _wait(services, call, accepted, answer, 0)
    if answer.fold.state == ANSWERED and answer.newest and not asked.return_immediately:
        return {"message": answer.newest.events[-1]["message"]}
    return {"task": answer.fold.task(asked.history_length)}


async def _continued(
    services: Services, call: Call, accepted: Accepted, asked: SendMessage
) -> Json:
    """Ask for a task whose past is not known here."""
    if asked.return_immediately:
        await services.feeds.release(accepted.feed)
    else:
        rest = _Rest(accepted.feed)
        await _wait(services, call, accepted, rest, accepted.generation - 1)
    query = GetTask(
        tenant=call.caller.tenant,
        owner=call.caller.owner,
        agent=call.agent,
        task=accepted.key.task,
        history_length=asked.history_length,
    )
    return (await services.state.get(query)).task


async def _wait(
    services: Services, call: Call, accepted: Accepted, rest: _Rest, after: int
) -> None:
    """Wait for what comes behind generation `after`; releases the feed.

    Raises:
        ClientDisconnect: the client went away.
        Stopping: the gateway stops, or the log is full.
        LogLost, BusUnavailable: nothing more can be read.
    """
    is_full = partial(services.full_streams.has, accepted.key)
    wait = Wait(services.subscriptions, accepted.feed, after, rest, is_full)
    why = await wait.over(call.receive)
    if why is not None:
        raise why.error or Stopping(why.reason, accepted.key.task, accepted.context)
