"""Pulls the runs of each queue, never more than there are permits for.

One request per queue is open at a time, whenever a permit is free. It ends when it is filled, when
the server ends it, or when it times out; then the next one is sent. If permits are too few for all
queues, a request does not wait for runs, and an empty queue pauses.

A worker that froze is given runs as long as a request of it is open. They are delivered again after
ack_wait. A request to a queue that had no run for long waits longer. It is for one run, so such a
worker is given no run twice.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.background import keep_running
from headrace.jetstream.client import Listening
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import (
    consumer_info,
    consumer_names,
    nak,
    pull_request,
    pull_subject,
)
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.jetstream.headers import STATUS
from headrace.model.errors import BusUnavailable
from headrace.model.queues import RunQueue, agent_of, version_of, weight_of
from headrace.tasks.runs import no_right_to
from headrace.ticks import last_tick_within, until_tick
from headrace_worker.concurrency import AgentConcurrency, Permit, PermitTurn

_SETTLE = 0.005

type OpenQueue = Callable[[str, str], Awaitable[Puller]]
"""Starts to pull from a consumer for an agent."""


class QueueWatch:
    """Pulls from every queue of the agents, as queues appear and disappear."""

    def __init__(self, bus: Bus, first: list[RunQueue], serve: OpenQueue, interval: float) -> None:
        """Watch the queues of the agents and versions of `first`; `serve` starts to pull from one.

        New queues are looked for at least every `interval` seconds.
        """
        self._bus, self._serve = bus, serve
        self._interval = interval
        self._stream = bus.streams.runs
        self._first = {_served_from(queue.consumer): queue for queue in first}
        self._pullers: dict[str, Puller] = {}
        self._hints: dict[str, Subscription] = {}
        self._forbidden: set[str] = set()
        """Queues that the worker may not pull from; each is logged once."""
        self._hinted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Pull from the first queue of every agent, and start to watch for others.

        Raises:
            BusUnavailable: the connection is closed.
        """
        for queue in self._first.values():
            await self._welcome(queue)
        self._hinted.set()
        self._task = keep_running(self._watch, "queues")

    async def serve_others(self, first: list[RunQueue]) -> None:
        """Watch the queues of `first`'s agents and versions only: pull from new ones.

        Pulling from others stops.

        Raises:
            BusUnavailable: JetStream does not answer; call it again.
        """
        kept = {_served_from(queue.consumer): queue for queue in first}
        for served in kept.keys() - self._first.keys():
            await self._welcome(kept[served])
        for agent in self._hints.keys() - {queue.agent for queue in first}:
            await self._bus.unsubscribe(self._hints.pop(agent))
        for name in [name for name in self._pullers if _served_from(name) not in kept]:
            await self._pullers.pop(name).drain()
        self._first = kept

    async def _welcome(self, queue: RunQueue) -> None:
        if queue.agent not in self._hints:
            hints = self._bus.subjects.queue(queue.agent)
            self._hints[queue.agent] = await self._bus.subscribe(hints, self._on_hint)
        await self._begin(queue.consumer)

    async def drain(self) -> None:
        """Stop pulling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for hints in self._hints.values():
            await self._bus.unsubscribe(hints)
        await asyncio.gather(*(puller.drain() for puller in self._pullers.values()))

    async def look_soon(self) -> None:
        """Check for new queues without waiting for the next hint."""
        self._hinted.set()

    async def look(self) -> None:
        """Pull from new queues, and stop pulling from those that are gone.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        names = await self._names()
        for name in names - self._pullers.keys() - self._forbidden:
            if await self._may_pull(name):
                _log.debug("serving a new queue: %s", name)
                await self._begin(name)
        for name in self._others() - names:
            _log.debug("a queue was deleted: %s", name)
            await self._pullers.pop(name).drain()

    async def _may_pull(self, name: str) -> bool:
        """Return whether the worker may pull from the queue; forbidden requests get no answer."""
        try:
            await consumer_info(self._bus, self._stream, name)
        except Refused as refused:
            if refused.number == ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
                _log.error("%s", no_right_to(name))
                self._forbidden.add(name)
                return False
        return True

    async def _begin(self, name: str) -> None:
        self._pullers[name] = await self._serve(agent_of(name), name)

    async def _on_hint(self, _: Msg) -> None:
        await self.look_soon()

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_tick(self._interval)):
                    await self._hinted.wait()
            # Many hints arrive together when a fleet starts.
            await asyncio.sleep(_SETTLE)
            self._hinted.clear()
            try:
                await self.look()
            except BusUnavailable as error:
                _log.debug("queues: %s", error)

    async def _names(self) -> set[str]:
        names = await consumer_names(self._bus, self._stream)
        return {name for name in names if _served_from(name) in self._first}

    def _others(self) -> set[str]:
        return self._pullers.keys() - {queue.consumer for queue in self._first.values()}


def _served_from(consumer: str) -> tuple[str, str]:
    """Return the agent and the version whose runs the consumer delivers."""
    return agent_of(consumer), version_of(consumer)


_log = logging.getLogger(__name__)

EXPIRES = 2.0
"""Seconds that a request waits for runs. Shorter than ack_wait less a heartbeat, so that the run of
a dead worker finds another one's request open, and a worker that froze with a run is not given it
again."""

EXPIRES_IDLE = 10.0
"""The same for the one run of a queue that had none for long."""

FIRST_REST = 0.02
"""Seconds for which an empty queue first pauses when permits are scarce; doubled each time."""

LONGEST_REST = 0.2
"""Maximum pause in seconds; longer if a worker has many queues."""

LOOKS = 500
"""Maximum requests per second of all empty queues together."""

BATCH = 16
"""Maximum runs per request."""

_OVERDUE = 1.0

_RETRY_PAUSE = 0.25

_FILLED = "filled"

_NO_ANSWER = "no answer"

_DISTURBED = "disturbed"

_EMPTY = frozenset({"404", "408"})
"""The server's statuses for: no (more) runs."""

_IN_ORDER = frozenset({_FILLED, _NO_ANSWER, _DISTURBED, *_EMPTY})
"""Ends of a request after which the consumer needs no repair."""

type Repair = Callable[[], Awaitable[None]]


class _PullRequest:
    """A pull request, and the number of its runs still to come."""

    def __init__(self, inbox: str, batch: int) -> None:
        self.inbox, self.remaining = inbox, batch
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def count_run(self) -> bool:
        """Count a run; return False if it does not belong to this request."""
        if self.over.done() or not self.remaining:
            return False
        self.remaining -= 1
        if not self.remaining:
            self.end(_FILLED)
        return True

    def end(self, how: str) -> None:
        if not self.over.done():
            self.over.set_result(how)


class Puller:
    """The pull requests of one queue."""

    def __init__(
        self,
        bus: Bus,
        consumer: str,
        deliver: Callable[[Msg], None],
        concurrency: AgentConcurrency,
        repair: Repair,
        *,
        idle_after: float,
    ) -> None:
        """Pull runs from the queue of `consumer` and pass each to `deliver`.

        The receiver of a run calls `done` when the run is over. `repair` is called when the server
        reports a problem with the consumer. Requests wait longer after `idle_after` seconds without
        a run.
        """
        self._bus, self._consumer, self._deliver = bus, consumer, deliver
        self._concurrency, self._repair_consumer = concurrency, repair
        weight = weight_of(consumer)
        self._turn, self._own_turn = PermitTurn(weight), PermitTurn(weight)
        self._inbox = bus.connection.new_inbox()
        self._subject = pull_subject(bus.streams.runs, consumer)
        self._serials = itertools.count(1)
        self._request: _PullRequest | None = None
        self._running = 0
        self._idle_after = idle_after
        self._loop = asyncio.get_running_loop()
        self._last_run = self._loop.time()
        """When the last run was over, in loop time (seconds)."""
        self._draining = False
        self._subscription: Listening | None = None
        self._returning = set[asyncio.Task[None]]()
        """Runs that are given back, until that is sent."""
        self._task: asyncio.Task[None] | None = None
        self._unregister: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Start pulling."""
        self._concurrency.enter()
        self._subscription = await self._bus.listen(f"{self._inbox}.*", self._on_message)
        self._unregister = self._bus.on_disturbance(lambda: self._end_request(_DISTURBED))
        self._task = keep_running(self._pull, f"pull {self._consumer}")

    async def drain(self) -> None:
        """Stop pulling; runs that still arrive go back to the queue."""
        if not self._draining:
            self._draining = True
            self._concurrency.leave()
        self._unregister()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None:
            await self._subscription.drain()  # type: ignore[no-untyped-call]

    def permit(self) -> Permit:
        """Return the permit of a delivered run."""
        return Permit(self._concurrency)

    def done(self, permit: Permit) -> None:
        """Release the permit of a delivered run that is over."""
        self._running -= 1
        self._last_run = self._loop.time()
        permit.release()

    async def _pull(self) -> None:
        rest = 0.0
        while True:
            await self._concurrency.acquire(self._turn, self._own_turn)
            is_scarce = self._concurrency.scarce
            # Requests grow during a burst; an idle queue keeps only one permit.
            more = self._concurrency.acquire_free(min(self._running, BATCH) - 1)
            how = await self._ask(1 + more, 0.0 if is_scarce else self._expires())
            if how not in _IN_ORDER:
                _log.info("pulling runs of %s failed: %s", self._consumer, how)
                await self._repair()
            rest = self._next_rest(rest) if is_scarce and how in _EMPTY else 0.0
            if rest:
                await asyncio.sleep(rest)

    def _expires(self) -> float:
        longest = EXPIRES_IDLE if self._is_idle() else EXPIRES
        return last_tick_within(longest, longest / 2)

    def _is_idle(self) -> bool:
        """Return whether a request may wait long.

        Another server would not know it if it became the queue's leader.
        """
        silence = self._loop.time() - self._last_run
        is_quiet = not self._running and silence > self._idle_after
        return is_quiet and self._concurrency.is_ample and self._bus.has_only_copies

    def _next_rest(self, last: float) -> float:
        longest = max(LONGEST_REST, self._concurrency.of_worker.users / LOOKS)
        return min(max(2 * last, FIRST_REST), longest)

    async def _ask(self, batch: int, expires: float) -> str:
        """Send a request and return how it ended."""
        request = self._request = _PullRequest(f"{self._inbox}.{next(self._serials)}", batch)
        overdue = self._loop.call_later(expires + _OVERDUE, request.end, _NO_ANSWER)
        try:
            body = pull_request(batch, expires)
            await self._bus.connection.publish(self._subject, body, reply=request.inbox)
            how = await request.over
        except (NatsError, OSError) as error:
            how = str(error) or type(error).__name__
        finally:
            overdue.cancel()
            self._request = None
            if request.remaining:
                self._concurrency.give_back(request.remaining)
        return _FILLED if how in _EMPTY and request.remaining < batch else how

    async def _repair(self) -> None:
        """Wait for a possible leader change, then ensure that the consumer exists."""
        await asyncio.sleep(_RETRY_PAUSE)
        try:
            await self._repair_consumer()
        except (BusUnavailable, NatsError, OSError) as error:
            _log.info("the work queue of %s: %s", self._consumer, error)

    def _on_message(self, msg: Msg) -> None:
        # First: a stored message may have its own Status header.
        if msg.reply:
            self._on_run(msg)
        elif self._request is not None and msg.subject == self._request.inbox:
            self._request.end((msg.headers or {}).get(STATUS, ""))

    def _on_run(self, msg: Msg) -> None:
        if self._has_permit():
            self._running += 1
            self._deliver(msg)
            return
        # Too late: its permit went to another run. Another worker may have one.
        returning = asyncio.Task(self._give_back(msg), loop=self._loop, eager_start=True)
        if not returning.done():
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _give_back(self, msg: Msg) -> None:
        try:
            await self._bus.connection.publish(msg.reply, nak())
        except (NatsError, OSError) as error:
            _log.info("a run of %s will be delivered again: %s", self._consumer, error)

    def _has_permit(self) -> bool:
        if self._draining:
            return False
        if self._request is not None and self._request.count_run():
            return True
        return self._concurrency.acquire_free(1) == 1

    def _end_request(self, how: str) -> None:
        if self._request is not None:
            self._request.end(how)
