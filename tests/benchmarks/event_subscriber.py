"""What people write by hand: a FastStream subscriber that has an official agent answer each event.

It publishes the agent's events on NATS, as they come. An event is acknowledged when its run has
ended; nothing keeps a redelivered one from beginning a second task.

Run as ``python -m tests.benchmarks.event_subscriber NATS_URL AGENT_URL``; prints ``ready <agent>``.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvloop
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from faststream import FastStream
from faststream.nats import JStream, NatsBroker
from google.protobuf.json_format import MessageToJson
from pydantic import BaseModel

from tests.benchmarks.event_path import SEEN, STREAM, SUBJECT

_AT_ONCE = 64
"""Events that are handled at a time, as many as a trigger's `limit`."""


class Order(BaseModel):
    """An event."""

    context: str
    text: str


class Subscriber:
    """The application."""

    def __init__(self, nats_url: str, agent_url: str) -> None:
        """Take events from `nats_url` to the agent at `agent_url`."""
        self._agent_url = agent_url
        self._broker = NatsBroker(nats_url, logger=None)
        self._client: Client | None = None
        subscriber = self._broker.subscriber(
            SUBJECT,
            stream=JStream(STREAM, subjects=[SUBJECT]),
            durable="benchmark",
            max_workers=_AT_ONCE,
        )
        subscriber(self.answer)
        self.app = FastStream(
            self._broker, logger=None, lifespan=self._lifespan, after_startup=[self._say_ready]
        )

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        async with httpx.AsyncClient(timeout=120) as http:
            config = ClientConfig(httpx_client=http)
            self._client = await ClientFactory(config).create_from_url(self._agent_url)
            yield

    async def _say_ready(self) -> None:
        sys.stdout.write(f"ready {self._agent_url}\n")
        sys.stdout.flush()

    async def answer(self, order: Order) -> None:
        """Run the agent on an event."""
        assert self._client is not None
        message = new_text_message(
            order.text, context_id=order.context, role=a2a_pb2.Role.ROLE_USER
        )
        request = a2a_pb2.SendMessageRequest(message=message)
        async for event in self._client.send_message(request):
            await self._broker.publish(MessageToJson(event, indent=None).encode(), SEEN)


def main() -> None:
    """Subscribe until ended."""
    nats_url, agent_url = sys.argv[1:]
    uvloop.run(Subscriber(nats_url, agent_url).app.run())


if __name__ == "__main__":
    main()
