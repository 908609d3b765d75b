"""One range's consumer of the work queue of webhooks."""

import asyncio
import logging
from collections.abc import Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import ACK, HEARTBEAT, IN_PROGRESS, Pulls, nak
from headrace.jetstream.durables import PUSH_ACK_WAIT, ensure_consumer, of_pushes
from headrace.jetstream.headers import DESCRIPTION, STATUS
from headrace.model.errors import BusUnavailable, HeadraceError, StreamsDiffer
from headrace.ticks import until_tick

_log = logging.getLogger(__name__)

_SIGN_EVERY = PUSH_ACK_WAIT / 3
_SILENCE = 3 * HEARTBEAT

type Receive = Callable[[Msg], None]


class QueueLost(HeadraceError):
    """The consumer fell silent or is gone."""

    code = "queue_lost"


class Queue:
    """Delivers the messages of one event stream's tasks; each is acknowledged when it is done.

    Any number may be held at a time: without this, messages that wait for their next attempt
    because of one dead receiver would delay all others.
    """

    def __init__(self, bus: Bus, number: int, receive: Receive) -> None:
        """Pass the messages of event stream `number`'s tasks to `receive`."""
        self._bus, self._number, self._receive = bus, number, receive
        self._name = f"push-{number}"
        self._held: dict[str, Msg] = {}
        self._inbox = bus.connection.new_inbox()
        self._pulls = self._new_pulls()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._last_message_at = self._loop.time()
        self._lost = ""

    async def run(self) -> None:
        """Deliver messages until an error occurs.

        Raises:
            QueueLost: the consumer can't be used any more.
            BusUnavailable: NATS does not answer.
        """
        await self._ensure_consumer()
        self._inbox, self._lost = self._bus.connection.new_inbox(), ""
        self._pulls = self._new_pulls()
        subscription = await self._bus.listen(self._inbox, self._accept)
        unregister = self._bus.on_disturbance(lambda: self._give_up("the connection was lost"))
        signing = keep_running(self._show_signs, self._name)
        try:
            await self._keep_pulling()
        finally:
            unregister()
            signing.cancel()
            await self._close(subscription)

    async def done(self, msg: Msg) -> None:
        """Remove the message from the queue."""
        await self._answer(msg, ACK)

    async def later(self, msg: Msg, seconds: float) -> None:
        """Have the message redelivered after that many seconds."""
        await self._answer(msg, nak(max(seconds, 0.001)))

    def drop(self, msg: Msg) -> None:
        """Release the message: a newer one of its subject has arrived and replaces it."""
        self._held.pop(msg.reply, None)

    async def give_back(self) -> None:
        """Have all held messages redelivered, to any consumer."""
        for msg in list(self._held.values()):
            await self.later(msg, 0)

    async def _answer(self, msg: Msg, body: bytes) -> None:
        self._held.pop(msg.reply, None)
        try:
            await self._bus.publish(msg.reply, body)
        except BusUnavailable as error:
            _log.info("%s will be delivered again: %s", msg.subject, error)
        self._wake.set()

    async def _ensure_consumer(self) -> None:
        config = of_pushes(self._bus.subjects, self._number)
        try:
            await ensure_consumer(self._bus, self._bus.streams.pushes, config)
        except StreamsDiffer as error:
            raise BusUnavailable(f"{self._name}: {error}") from error

    def _new_pulls(self) -> Pulls:
        return Pulls(self._bus, self._bus.streams.pushes, self._name, self._inbox)

    async def _keep_pulling(self) -> None:
        self._last_message_at = self._loop.time()
        while not self._lost:
            await self._pulls.top_up(len(self._held))
            self._wake.clear()
            try:
                async with asyncio.timeout(until_tick(HEARTBEAT)):
                    await self._wake.wait()
            except TimeoutError:
                # While all pulls are filled, silence is normal.
                if self._pulls.waiting and self._loop.time() - self._last_message_at > _SILENCE:
                    self._lost = "no heartbeats from the consumer"
        raise QueueLost(self._lost)

    def _accept(self, msg: Msg) -> None:
        self._last_message_at = self._loop.time()
        if msg.reply:
            self._pulls.delivered(len(msg.data))
            self._held[msg.reply] = msg
            self._receive(msg)
            return
        headers = msg.headers or {}
        match headers.get(STATUS):
            case "100":
                return
            case "408" | "409" if Pulls.only_ended(headers):
                self._pulls.ended(headers)
                self._wake.set()
            case status:
                self._give_up(f"{status} {headers.get(DESCRIPTION, '')}")

    def _give_up(self, why: str) -> None:
        self._lost = why
        self._wake.set()

    async def _show_signs(self) -> None:
        while True:
            await asyncio.sleep(_SIGN_EVERY)
            for reply in list(self._held):
                try:
                    await self._bus.publish(reply, IN_PROGRESS)
                except BusUnavailable as error:
                    _log.info("%s: %s", self._name, error)

    async def _close(self, subscription: Subscription) -> None:
        await self._bus.unsubscribe(subscription)
