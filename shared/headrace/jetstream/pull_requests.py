"""Messages of a durable consumer, on request.

nats-py's `fetch` sends two requests each time, and waits for the rest of a batch once it has its
first message. It ends with an exception if there is no message. Its traceback refers to itself, so
each wait without messages leaves cyclic garbage.
"""

import asyncio
import itertools

from nats.aio.msg import Msg
from nats.js.errors import APIError

from headrace.jetstream.client import Listening, NatsClient
from headrace.jetstream.consumers import pull_request, pull_subject
from headrace.jetstream.headers import STATUS

_OVERDUE = 0.25
"""Seconds after its end by which the server has told of it. A request that is lost with a server
delays messages as long."""

_NO_MESSAGES = frozenset({"404", "408"})
"""The server's statuses for: no (more) messages."""


class _OpenPull:
    """A request and the number of its messages still to come."""

    def __init__(self, inbox: str, batch: int) -> None:
        self.inbox, self._remaining = inbox, batch
        self.over: asyncio.Future[Msg | None] = asyncio.get_running_loop().create_future()
        """With the status by which the server ended it, if it did."""

    def count(self) -> None:
        self._remaining -= 1
        if not self._remaining:
            self.end()

    def end(self, status: Msg | None = None) -> None:
        if not self.over.done():
            self.over.set_result(status)


class PullRequests:
    """Pulls from one consumer: one request at a time.

    The request that waits is for one message: a process that froze is given no more. Others are
    only sent after messages have come, and don't wait.
    """

    def __init__(self, client: NatsClient, stream: str, consumer: str, inbox: str) -> None:
        """Pull from `consumer` of `stream`; answers come to subjects that begin with `inbox`."""
        self._client, self._inbox = client, inbox
        self._stream, self._consumer = stream, consumer
        self._subject = pull_subject(stream, consumer)
        self._serials = itertools.count(1)
        self._arrived = list[Msg]()
        self._may_have_more = True
        self._request: _OpenPull | None = None
        self._listening: Listening | None = None

    async def start(self) -> None:
        """Listen for answers."""
        self._listening = await self._client.listen(f"{self._inbox}.*", self._on_message)

    async def fetch(self, batch: int, timeout: float | None) -> list[Msg]:
        """Return up to `batch` messages as soon as there is one, or none after `timeout` seconds.

        Raises:
            Error: of nats-py; the server refuses the request, or the connection is closed.
        """
        waits = timeout or 0.0
        if not self._arrived and self._may_have_more:
            await self._ask(batch, 0.0, waits)
        if not self._arrived:
            await self._ask(1, waits, waits)
        found, self._arrived = self._arrived[:batch], self._arrived[batch:]
        self._may_have_more = bool(found)
        return found

    async def consumer_info(self) -> object:
        """Return the state of the consumer.

        Raises:
            NotFoundError: It is gone.
        """
        return await self._client.jetstream().consumer_info(self._stream, self._consumer)

    async def unsubscribe(self) -> None:
        """End the subscription. Messages that were not fetched are delivered again."""
        if self._listening is not None:
            self._listening.end()

    async def _ask(self, batch: int, expires: float, timeout: float) -> None:
        """Send a request, and return when it has ended or was not answered in time."""
        request = self._request = _OpenPull(f"{self._inbox}.{next(self._serials)}", batch)
        overdue = asyncio.get_running_loop().call_later(timeout + _OVERDUE, request.end)
        try:
            await self._client.publish(self._subject, pull_request(batch, expires), request.inbox)
            status = await request.over
        finally:
            overdue.cancel()
            self._request = None
        if status is not None and (status.headers or {})[STATUS] not in _NO_MESSAGES:
            APIError.from_msg(status)

    def _on_message(self, msg: Msg) -> None:
        request = self._request
        # First: a stored message may have a Status header of its own.
        if msg.reply:
            self._arrived.append(msg)
            if request is not None:
                request.count()
        elif request is not None and msg.subject == request.inbox:
            request.end(msg)
