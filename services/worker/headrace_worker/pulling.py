"""Asking the work queue for one agent's runs: never for more than there is room for.

One request is out at a time, whenever there is room. It is over when it is filled, when the server
says so, or when its time has passed; then the next one goes out. That time is shorter than ack_wait
less a heartbeat, so that the run of a dead worker meets a request of a living one.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable

import orjson
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js import api

from headrace.bus import Bus
from headrace_worker.slots import Slots

_log = logging.getLogger(__name__)

ACK_WAIT = 4.0
"""Seconds without a heartbeat after which a run goes to another worker."""

EXPIRES = 2.0
"""Seconds that a request waits for runs."""

SHORT = 0.2
"""The same, where agents take turns for too little room."""

BATCH = 16
"""Runs that one request asks for at most."""

_OVERDUE = 1.0
_AFTER_TROUBLE = 0.25
_MENDING = 1.0
_MAX_ACK_PENDING = 100_000

_FILLED = "filled"
_NO_ANSWER = "no answer"
_DISTURBED = "disturbed"
_IN_ORDER = frozenset({_FILLED, _NO_ANSWER, _DISTURBED, "404", "408"})
"""Ways in which a request may be over that need no mending; numbers are the server's statuses."""


async def ensure_consumer(bus: Bus, agent: str, timeout: float = 5.0) -> None:
    """Make the agent's consumer of the work queue, if it is not there, within `timeout` seconds.

    Raises:
        nats.errors.Error: JetStream does not answer, or refuses.
    """
    config = api.ConsumerConfig(
        durable_name=agent,
        filter_subject=bus.subjects.runs_of_agent(agent),
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT,
        # Attempts are counted in the log; past a maximum here a run would be stuck for ever.
        max_deliver=-1,
        max_ack_pending=_MAX_ACK_PENDING,
    )
    await bus.js.add_consumer(bus.streams.runs, config, timeout=timeout)


class _Request:
    """What was asked for, and what is still to come of it."""

    def __init__(self, inbox: str, batch: int) -> None:
        self.inbox, self.remaining = inbox, batch
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def take_run(self) -> bool:
        """Count a run; False: it is none of this request's."""
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
    """One agent's requests."""

    def __init__(
        self, bus: Bus, agent: str, deliver: Callable[[Msg], None], slots: Slots, own: Slots
    ) -> None:
        """Pull runs of `agent` and `deliver` each; whoever gets one calls `done` afterwards.

        A run needs a place of `slots`, the worker's, and one of `own`, the agent's.
        """
        self._bus, self._agent, self._deliver = bus, agent, deliver
        self._slots, self._own = slots, own
        self._inbox = bus.connection.new_inbox()
        self._serials = itertools.count(1)
        self._request: _Request | None = None
        self._running = 0
        self._draining = False
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._unregister: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Begin to pull."""
        self._subscription = await self._bus.connection.subscribe(
            f"{self._inbox}.*", cb=self._on_message
        )
        self._unregister = self._bus.on_disturbance(lambda: self._end_request(_DISTURBED))
        self._task = asyncio.create_task(self._pull(), name=f"pull {self._agent}")

    async def drain(self) -> None:
        """Pull no more; runs that still arrive go back to the queue."""
        self._draining = True
        self._unregister()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None:
            await self._subscription.drain()  # type: ignore[no-untyped-call]

    def done(self) -> None:
        """Be told that a delivered run is over."""
        self._running -= 1
        self._give_back(1)

    async def _pull(self) -> None:
        while True:
            await self._take_place()
            how = await self._ask(1 + self._more())
            if how not in _IN_ORDER:
                _log.info("pulling for %s: %s", self._agent, how)
                await self._mend()

    async def _take_place(self) -> None:
        await self._own.take()
        try:
            await self._slots.take()
        except asyncio.CancelledError:
            self._own.give_back(1)
            raise

    def _more(self) -> int:
        """Take room for as many runs again as are at work.

        So a burst is met by ever larger requests, and an idle agent keeps but one place from the
        others.
        """
        more = self._own.take_more(min(self._running, BATCH) - 1)
        granted = self._slots.take_more(more)
        self._own.give_back(more - granted)
        return granted

    async def _ask(self, batch: int) -> str:
        """Send a request and return how it was over."""
        request = self._request = _Request(f"{self._inbox}.{next(self._serials)}", batch)
        expires = SHORT if self._slots.contended else EXPIRES
        overdue = asyncio.get_running_loop().call_later(expires + _OVERDUE, request.end, _NO_ANSWER)
        try:
            await self._publish(request, batch, expires)
            return await request.over
        except (NatsError, OSError) as trouble:
            return str(trouble) or type(trouble).__name__
        finally:
            overdue.cancel()
            self._request = None
            self._give_back(request.remaining)

    async def _publish(self, request: _Request, batch: int, expires: float) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._bus.streams.runs}.{self._agent}"
        body = orjson.dumps({"batch": batch, "expires": int(expires * 1e9)})
        await self._bus.connection.publish(subject, body, reply=request.inbox)

    async def _mend(self) -> None:
        """Wait out what may be a change of leaders, and see that there is a consumer."""
        await asyncio.sleep(_AFTER_TROUBLE)
        try:
            await ensure_consumer(self._bus, self._agent, _MENDING)
        except (NatsError, OSError) as trouble:
            _log.info("the work queue of %s: %s", self._agent, trouble)

    async def _on_message(self, msg: Msg) -> None:
        headers = msg.headers or {}
        if "Status" not in headers:
            await self._on_run(msg)
        elif self._request is not None and msg.subject == self._request.inbox:
            self._request.end(headers["Status"])

    async def _on_run(self, msg: Msg) -> None:
        if not self._has_room():
            # Too late: its place went to another run. Somebody else may have one.
            await self._bus.connection.publish(msg.reply, b"-NAK")
            return
        self._running += 1
        self._deliver(msg)

    def _has_room(self) -> bool:
        if self._draining:
            return False
        if self._request is not None and self._request.take_run():
            return True
        if not self._own.take_more(1):
            return False
        if self._slots.take_more(1):
            return True
        self._own.give_back(1)
        return False

    def _end_request(self, how: str) -> None:
        if self._request is not None:
            self._request.end(how)

    def _give_back(self, count: int) -> None:
        self._own.give_back(count)
        self._slots.give_back(count)
