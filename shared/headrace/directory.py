"""The agents of a fleet: a durable card per agent and a key that expires per live instance.

Workers announce; gateways keep a copy of the whole bucket, read again every few seconds and at
once when an unknown key is written. An agent whose instances are gone stays known.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import orjson
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import Field

from headrace.bus import TROUBLE, Bus
from headrace.errors import BusUnavailable, UndecodableMessage
from headrace.log.read import BATCH_TIMEOUT
from headrace.messages import BusMessage
from headrace.names import check_agent_name

_log = logging.getLogger(__name__)

INSTANCE_TTL = 10
"""Seconds after which an instance that renews its key no more counts as gone."""
RENEW_EVERY = 3.0
"""Seconds between renewals."""
RELIST_EVERY = 3.0
"""Seconds between full reads of the bucket."""

_OPERATION = "KV-Operation"
_SUBJECT = "Nats-Subject"


class AgentCard(BusMessage):
    """What an agent says of itself; gateways add URLs, versions and the fleet's capabilities."""

    name: str
    description: str = ""
    version: str = "1.0.0"
    skills: list[dict[str, Any]] = Field(default_factory=list)
    """A2A AgentSkill objects."""
    input_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    """Media types that the agent takes; ``*/*`` takes all."""
    output_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    bare_message: bool = False
    """May answer with a bare Message instead of a task."""


class Announcer:
    """A worker's side: puts cards and keeps this instance's keys alive."""

    def __init__(self, bus: Bus, instance: str) -> None:
        """Announce for `instance`, a subject token."""
        self._bus, self._instance = bus, instance

    async def announce(self, card: AgentCard) -> None:
        """Put the agent's card and this instance's first key.

        Raises:
            InvalidName: the agent's name can't be one.
            BusUnavailable: JetStream did not acknowledge.
        """
        check_agent_name(card.name)
        await self._put(f"card.{card.name}", card.encode())
        await self.renew(card.name)

    async def renew(self, agent: str) -> None:
        """Say that this instance still serves `agent`.

        Raises:
            BusUnavailable: JetStream did not acknowledge.
        """
        await self._put(self._key(agent), b"{}", {"Nats-TTL": str(INSTANCE_TTL)})

    async def withdraw(self, agent: str) -> None:
        """Say that this instance serves `agent` no more; the card stays.

        Raises:
            BusUnavailable: JetStream did not acknowledge.
        """
        await self._put(self._key(agent), b"", {_OPERATION: "DEL"})

    def _key(self, agent: str) -> str:
        return f"live.{agent}.{self._instance}"

    async def _put(self, key: str, value: bytes, headers: dict[str, str] | None = None) -> None:
        subject = f"$KV.{self._bus.streams.agents}.{key}"
        answer = orjson.loads((await self._bus.request(subject, value, 2.0, headers)).data)
        if "error" in answer:
            raise BusUnavailable(f"{subject}: {answer['error'].get('description')}")


@dataclass(slots=True)
class Listing:
    """The bucket as last read."""

    cards: dict[str, AgentCard] = field(default_factory=dict)
    instances: dict[str, set[str]] = field(default_factory=dict)
    """Live instances by agent; an agent without any is missing."""


class Directory:
    """A gateway's copy of the bucket."""

    def __init__(self, bus: Bus) -> None:
        """Know nothing until `start`."""
        self._bus = bus
        self._prefix = f"$KV.{bus.streams.agents}."
        self._listing = Listing()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hints: Subscription | None = None

    async def start(self) -> None:
        """Read the bucket, and keep reading.

        Raises:
            BusUnavailable: the first read failed.
        """
        self._hints = await self._bus.connection.subscribe(f"{self._prefix}>", cb=self._on_hint)
        self._listing = await self._read()
        self._task = asyncio.create_task(self._keep_reading(), name="directory")

    async def stop(self) -> None:
        """Stop reading."""
        if self._hints is not None:
            await self._hints.unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def cards(self) -> list[AgentCard]:
        """Return every agent's card, by name."""
        return [card for _, card in sorted(self._listing.cards.items())]

    def card(self, agent: str) -> AgentCard | None:
        """Return the agent's card; None: no such agent has ever been announced."""
        return self._listing.cards.get(agent)

    def available(self, agent: str) -> bool:
        """Tell whether an instance of the agent is alive."""
        return agent in self._listing.instances

    async def _on_hint(self, msg: Msg) -> None:
        key = msg.subject.removeprefix(self._prefix)
        if key.startswith("card.") or not msg.data or not self._knows(key):
            self._wake.set()

    def _knows(self, key: str) -> bool:
        _, agent, instance = (*key.split("."), "", "")[:3]
        return instance in self._listing.instances.get(agent, ())

    async def _keep_reading(self) -> None:
        while True:
            try:
                async with asyncio.timeout(RELIST_EVERY):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            # What was just published is stored a moment later.
            await asyncio.sleep(0.05)
            try:
                self._listing = await self._read()
            except BusUnavailable as trouble:
                _log.debug("agents: %s", trouble)

    async def _read(self) -> Listing:
        listing = Listing()
        for key, msg in (await self._read_all()).items():
            kind, agent, instance = (*key.split("."), "", "")[:3]
            if kind == "card":
                self._take_card(listing, agent, msg)
            elif kind == "live":
                listing.instances.setdefault(agent, set()).add(instance)
        return listing

    @staticmethod
    def _take_card(listing: Listing, agent: str, msg: Msg) -> None:
        try:
            listing.cards[agent] = AgentCard.decode(msg.subject, msg.data)
        except UndecodableMessage as error:
            _log.warning("agent %s has no readable card: %s", agent, error)

    async def _read_all(self) -> dict[str, Msg]:
        found: dict[str, Msg] = {}
        done = asyncio.Event()

        async def receive(msg: Msg) -> None:
            headers = msg.headers or {}
            if "Status" in headers:
                done.set()
            elif _OPERATION not in headers:
                found[headers[_SUBJECT].removeprefix(self._prefix)] = msg

        inbox = self._bus.connection.new_inbox()
        subscription = await self._bus.connection.subscribe(inbox, cb=receive)
        try:
            await self._bus.connection.publish(
                f"$JS.API.DIRECT.GET.KV_{self._bus.streams.agents}",
                orjson.dumps({"multi_last": [f"{self._prefix}>"]}),
                reply=inbox,
            )
            async with asyncio.timeout(BATCH_TIMEOUT * 4):
                await done.wait()
        except (*TROUBLE, TimeoutError) as error:
            raise BusUnavailable("the agents' bucket does not answer") from error
        finally:
            await subscription.unsubscribe()
        return found
