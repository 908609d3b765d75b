"""The agents of a fleet: a durable card per agent and an expiring key per live instance.

Workers announce their agents. Gateways keep a copy of the whole bucket. They hear the renewals of
keys as these are published, and read what is new after a few seconds in which one was not renewed.
They read all of it when a key is written that is not known, and regularly. An agent without
instances stays known for a week.

Keys are ``card.<agent>``, for a pinned version ``card.<agent>.<version>``; ``live.<agent>.
<instance>``, whose value names a pinned version; and ``route.<agent>``, the rule that sends new
tasks to the agent's versions.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.background import keep_running
from headrace.jetstream.api import server_time, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged, ReplicaValue, stream_of
from headrace.model.agent_card import AgentCard, card_key
from headrace.model.agent_route import UNPINNED, AgentRoute, first_version
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import BusMessage
from headrace.model.subjects import check_agent_name
from headrace.ticks import until_tick
from headrace.wait_for import wait_for


class Renewals:
    """The renewals of keys that a reader has seen or heard."""

    def __init__(self) -> None:
        """Start without keys."""
        self._seen: dict[str, tuple[int, float]] = {}

    def hear(self, key: str, now: float) -> None:
        """Record that a renewal of `key` was published, if the key was seen."""
        if key in self._seen:
            self._seen[key] = self._seen[key][0], now

    def fresh(self, keys: Mapping[str, int], now: float, timeout: float) -> set[str]:
        """Return those of `keys` that are new or were renewed within `timeout` seconds.

        Args:
            keys: All existing keys, with their messages' sequences.
            now: The reader's own monotonic clock in seconds.
            timeout: In seconds.
        """
        self._seen = {
            key: (sequence, self._since(key, sequence, now)) for key, sequence in keys.items()
        }
        return {key for key, (_, since) in self._seen.items() if now - since <= timeout}

    def age(self, key: str, now: float) -> float:
        """Return the seconds since a renewal of `key` was seen; 0 if it was not seen."""
        return now - self._since(key, self._seen.get(key, (0, now))[0], now)

    def _since(self, key: str, sequence: int, now: float) -> float:
        known, since = self._seen.get(key, (0, now))
        return since if known == sequence else now


__all__ = [
    "TIMING",
    "AgentCard",
    "Announcer",
    "Directory",
    "DirectoryContent",
    "DirectoryTiming",
    "Instance",
]

_log = logging.getLogger(__name__)

_RENEWALS = 10
"""Looks at what was renewed after which all is read: cards and routes may have expired."""


@dataclass(frozen=True, slots=True)
class DirectoryTiming:
    """How long entries are kept, and how often they are written and read; all in seconds."""

    instance_ttl: int = 10
    """After which an instance that stops renewing its key counts as gone."""
    card_ttl: int = 7 * 24 * 3600
    """For which an agent without instances stays known, as unavailable."""
    announce_interval: float = 3600.0
    """Between announcements of an instance's agents."""
    renew_interval: float = 3.0
    """Between renewals."""
    read_interval: float = 3.0
    """Between looks at whether all keys were renewed; the bucket is read if one was not."""
    second_look: float = 1.0
    """Between a read after a change and the next one, if reads are not more frequent."""


_HINTS = 0.05
"""Seconds within which hints of the same change arrive."""

TIMING = DirectoryTiming()
"""Used outside tests."""


class Announcer:
    """The worker's side: writes cards and renews this instance's keys.

    Every call raises BusUnavailable if JetStream does not acknowledge.
    """

    def __init__(self, bus: Bus, instance: str, timing: DirectoryTiming = TIMING) -> None:
        """Announce for `instance`, a subject token."""
        self._bucket, self._instance = Bucket(bus, bus.streams.agents), instance
        self._timing = timing

    async def announce(self, card: AgentCard) -> None:
        """Write the agent's card and this instance's first key.

        The last card that was written applies: a rolling update may change it.

        Raises:
            InvalidName: The name is not a valid agent name.
        """
        check_agent_name(card.name)
        await self._mention_another(card)
        await self._bucket.overwrite(
            card_key(card.name, card.pinned_version), card.encode(), seconds=self._timing.card_ttl
        )
        await self.renew(card.name, card.pinned_version)

    async def renew(self, agent: str, version: str = UNPINNED) -> None:
        """Renew this instance's key for `agent`, whose `version` it serves."""
        await self._bucket.overwrite(
            self._key(agent), _serving(version), seconds=self._timing.instance_ttl
        )

    async def renew_all(self, cards: Iterable[AgentCard]) -> None:
        """Renew this instance's keys for the agents of `cards`, which are announced, together."""
        values = {self._key(card.name): _serving(card.pinned_version) for card in cards}
        if values:
            await self._bucket.overwrite_all(values, seconds=self._timing.instance_ttl)

    async def withdraw(self, agent: str) -> None:
        """Delete this instance's key for `agent`; the card stays.

        While the deletion marker exists, operators can still ask the instance; repeated calls renew
        it.
        """
        # The deletion marker expires too. Otherwise the bucket would keep one per instance for
        # ever.
        await self._bucket.delete(self._key(agent), seconds=self._timing.instance_ttl)

    async def _mention_another(self, card: AgentCard) -> None:
        key = card_key(card.name, card.pinned_version)
        found = (await self._bucket.get(key)).data
        with suppress(UndecodableMessage):
            former = card if found is None else AgentCard.decode(key, found)
            if differing := [n for n in AgentCard.model_fields if _differ(n, card, former)]:
                _log.warning(
                    "the card of agent %s has changed: %s", card.name, ", ".join(differing)
                )

    def _key(self, agent: str) -> str:
        return f"live.{agent}.{self._instance}"


class Serving(BusMessage):
    """What an instance serves, the value of its key."""

    version: str | None = None
    """The version to which it pins tasks. None: it pins none."""


def _serving(version: str) -> bytes:
    return Serving(version=version or None).encode()


_UNROUTED = AgentRoute()
"""The route of an agent without pinned versions."""


def route_key(agent: str) -> str:
    """Return the key under which the bucket has the agent's route."""
    return f"route.{agent}"


async def renewed(bus: Bus, agent: str, instance: str) -> datetime | None:
    """Return when the instance last renewed its key for `agent`, by NATS's clock. None: unknown.

    Raises:
        BusUnavailable: The bucket does not answer.
    """
    return (await Bucket(bus, bus.streams.agents).get(f"live.{agent}.{instance}")).written


async def silent_for(bus: Bus, agent: str, instance: str) -> float | None:
    """Return the seconds since the instance last renewed its key, by NATS's clock.

    None: its key has expired, or it has left.

    Raises:
        BusUnavailable: The bucket does not answer.
    """
    value = await Bucket(bus, bus.streams.agents).get(f"live.{agent}.{instance}")
    if value.data is None or value.written is None:
        return None
    now = await until_answered(bus, lambda: server_time(bus, stream_of(bus.streams.agents)))
    return now - value.written.timestamp()


def _differ(name: str, one: AgentCard, other: AgentCard) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


@dataclass(frozen=True, slots=True)
class Instance:
    """A live worker, as a reader of the directory sees it."""

    agents: tuple[str, ...]
    silent: float
    """Seconds since the reader saw it renew one of its keys."""


@dataclass(slots=True)
class DirectoryContent:
    """The bucket's content as last read."""

    cards: dict[str, AgentCard] = field(default_factory=dict)
    """By agent: the card of the version that is current."""
    versions: dict[str, dict[str, AgentCard]] = field(default_factory=dict)
    """By agent and version."""
    routes: dict[str, AgentRoute] = field(default_factory=dict)
    """Of agents with pinned versions."""
    unrouted: set[str] = field(default_factory=set)
    """Agents with pinned versions whose route is not stored yet."""
    instances: dict[str, set[str]] = field(default_factory=dict)
    """Live instances by agent. An agent without instances has no item."""
    serving: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Live instances by agent and version."""
    workers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The agents that each live instance serves, sorted."""
    leaving: dict[str, str] = field(default_factory=dict)
    """Instances that have withdrawn from an agent, with that agent."""

    def list_workers(self) -> None:
        """List what each instance serves, once the bucket has been read."""
        for agent, instances in sorted(self.instances.items()):
            for instance in instances:
                self.workers[instance] = (*self.workers.get(instance, ()), agent)

    def route(self) -> None:
        """Choose each agent's current version and card, once the bucket has been read."""
        for agent, versions in self.versions.items():
            if agent not in self.routes and versions.keys() != {UNPINNED}:
                self.routes[agent] = AgentRoute(current=first_version(versions))
                self.unrouted.add(agent)
            route = self.routes.get(agent)
            current = UNPINNED if route is None else route.current
            # The current version's card may have expired, but not another one's.
            self.cards[agent] = versions.get(current) or versions[first_version(versions)]


class Directory:
    """A gateway's copy of the bucket."""

    def __init__(
        self,
        bus: Bus,
        timing: DirectoryTiming = TIMING,
        *,
        stores_routes: bool = False,
        bucket: Bucket | None = None,
    ) -> None:
        """Create an empty copy of `bucket`, by default the fleet's; `start` fills it.

        With `stores_routes`, it stores the first route of an agent, so that all gateways send new
        tasks to the same version.
        """
        self._bus, self._timing, self._stores_routes = bus, timing, stores_routes
        self._bucket = bucket or Bucket(bus, bus.streams.agents)
        self.content = DirectoryContent()
        """What the last read found."""
        self.next_read = asyncio.Event()
        """Set once `content` is known to be current again; another one follows it."""
        self._copy: dict[str, ReplicaValue | None] = {}
        """All entries, as last read."""
        self._renewals_read = 0
        """How often only renewals were looked at since."""
        self._renewals, self._heard = Renewals(), set[str]()
        """`_heard`: instances' keys whose renewals were heard since the last look."""
        self._complained: dict[str, bytes] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hints: Subscription | None = None
        self._forget_disturbance: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Read the bucket and keep the copy up to date.

        Raises:
            BusUnavailable: The bucket could not be read within `startup_timeout`.
        """
        self._hints = await self._bus.listen(f"{self._bucket.prefix}>", self._on_hint)
        # A frozen replica of the bucket does not answer, but another one will.
        await wait_for("the agents' bucket", self.read, self._bus.settings.startup_timeout)
        self._forget_disturbance = self._bus.on_disturbance(self._wake.set)
        self._task = keep_running(self._keep_reading, "directory")

    async def stop(self) -> None:
        """Stop reading."""
        self._forget_disturbance()
        if self._hints is not None:
            await self._bus.unsubscribe(self._hints)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def cards(self) -> list[AgentCard]:
        """Return all agents' cards, sorted by name."""
        return [card for _, card in sorted(self.content.cards.items())]

    def card(self, agent: str) -> AgentCard | None:
        """Return the agent's card. None: the agent is unknown."""
        return self.content.cards.get(agent)

    async def find_card(self, agent: str) -> AgentCard | None:
        """Return the agent's card, also if the agent was announced a moment ago.

        Raises:
            BusUnavailable: The agent is not known yet, and the bucket can't be read.
        """
        if self.card(agent) is None:
            await self.read()
        return self.card(agent)

    def available(self, agent: str) -> bool:
        """Return whether an instance of the agent's current version is alive."""
        route = self.content.routes.get(agent)
        if route is None:
            return agent in self.content.instances
        return route.current in self.content.serving.get(agent, {})

    def route(self, agent: str) -> AgentRoute:
        """Return where the agent's new tasks go: to the unpinned version, if it has no others."""
        return self.content.routes.get(agent, _UNROUTED)

    def chosen_card(self, agent: str, tenant: str, headers: Mapping[str, str]) -> AgentCard | None:
        """Return the card of the version that the tenant or a header of a request chooses.

        None: neither chooses one that is known.
        """
        version = self.route(agent).chosen_by(tenant, headers)
        return None if version is None else self.versions(agent).get(version)

    def versions(self, agent: str) -> Mapping[str, AgentCard]:
        """Return the cards of the agent's versions; the empty version is the unpinned one."""
        return self.content.versions.get(agent, {})

    def serving(self, agent: str, version: str) -> set[str]:
        """Return the live instances of the agent's version."""
        return self.content.serving.get(agent, {}).get(version, set())

    def workers(self) -> dict[str, Instance]:
        """Return all live instances by their names."""
        now = time.monotonic()
        return {
            name: Instance(agents, min(self._silent(name, agent, now) for agent in agents))
            for name, agents in self.content.workers.items()
        }

    def agents_by_worker(self) -> Mapping[str, tuple[str, ...]]:
        """Return the agents that each live instance serves."""
        return self.content.workers

    def workers_to_ask(self) -> dict[str, str]:
        """Return the instances that live or are draining, each with an agent that it serves."""
        live = {name: agents[0] for name, agents in self.content.workers.items()}
        return self.content.leaving | live

    def _silent(self, instance: str, agent: str, now: float) -> float:
        return self._renewals.age(f"live.{agent}.{instance}", now)

    def _on_hint(self, msg: Msg) -> None:
        key = msg.subject.removeprefix(self._bucket.prefix)
        # Draining instances repeat their deletions, and live ones their entries.
        if not key.startswith("live.") or bool(msg.data) != self._knows(key):
            self._wake.set()
        elif msg.data:
            self._on_renewal(key, msg.data)
        elif key not in self._copy:
            self._wake.set()  # It was unknown when it left, and operators may ask for it.

    def _on_renewal(self, key: str, data: bytes) -> None:
        known = self._copy.get(key)
        if known is None or known.data != data:
            self._wake.set()
        else:
            self._heard.add(key)
            self._renewals.hear(key, time.monotonic())

    def _knows(self, key: str) -> bool:
        _, agent, instance = (*key.split("."), "", "")[:3]
        return instance in self.content.instances.get(agent, ())

    async def _keep_reading(self) -> None:
        interval = self._timing.read_interval
        while True:
            is_hinted = await self._hinted_within(interval)
            # A message is published a moment before it is stored, on a busy server or another
            # replica even later: what a hint is about is read twice.
            interval = self._timing.read_interval
            if is_hinted:
                interval = min(interval, self._timing.second_look)
                await asyncio.sleep(_HINTS)
            try:
                await (self.read() if is_hinted else self._look_at_renewals())
            except BusUnavailable as error:
                _log.debug("agents: %s", error)

    async def _hinted_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(until_tick(seconds)):
                await self._wake.wait()
        is_hinted = self._wake.is_set()
        self._wake.clear()
        return is_hinted

    async def read(self) -> None:
        """Read the bucket now.

        Raises:
            BusUnavailable: The bucket can't be read.
        """
        copy = await self._bucket.entries()
        self._renewals_read = 0
        await self._use(copy)

    async def _look_at_renewals(self) -> None:
        """Read nothing if all instances were heard, until it is time to read all."""
        heard, self._heard = self._heard, set()
        if not self._are_renewed(heard) or self._renewals_read >= _RENEWALS:
            await self._read_renewals()
        else:
            self._renewals_read += 1
            self._confirm()

    async def _read_renewals(self) -> None:
        """Read what was written since the last read; all, if anything may have been removed."""
        known = self._copy
        after = max((one.sequence for one in known.values() if one is not None), default=0)
        newer = await self._bucket.entries(after=after)
        self._renewals_read += 1
        if self._are_renewed(newer) and self._renewals_read < _RENEWALS:
            await self._use(known | newer)
        else:
            await self.read()

    def _are_renewed(self, keys: Container[str]) -> bool:
        """Return whether `keys` are those of all instances, none of which is leaving."""
        return all(
            one is not None and (key in keys or not key.startswith("live."))
            for key, one in self._copy.items()
        )

    async def _use(self, copy: dict[str, ReplicaValue | None]) -> None:
        self._copy = copy
        listing, lives = DirectoryContent(), dict[str, ReplicaValue]()
        for key, copied in copy.items():
            kind, _, agent = key.partition(".")
            if kind == "live":
                self._read_instance(listing, lives, key, copied)
            elif copied is None:
                continue
            elif kind == "card":
                self._read_card(listing, agent, copied.data)
            elif kind == "route":
                self._read_route(listing, agent, copied.data)
        timeout = self._timing.instance_ttl + self._timing.read_interval
        sequences = {key: copied.sequence for key, copied in lives.items()}
        for key in self._renewals.fresh(sequences, time.monotonic(), timeout):
            _, agent, instance = key.split(".")
            listing.instances.setdefault(agent, set()).add(instance)
            serving = listing.serving.setdefault(agent, {})
            serving.setdefault(_version_in(lives[key].data), set()).add(instance)
        listing.list_workers()
        listing.route()
        self.content = listing
        self._confirm()
        if self._stores_routes:
            for agent in listing.unrouted:
                await self._store(agent, listing.routes[agent])

    def _confirm(self) -> None:
        self.next_read.set()
        self.next_read = asyncio.Event()

    async def _store(self, agent: str, route: AgentRoute) -> None:
        with suppress(KeyChanged):
            await self._bucket.put(route_key(agent), route.encode(), after=0)
            _log.info("agent %s: new tasks go to version %s", agent, route.current or "(unpinned)")

    def _read_card(self, listing: DirectoryContent, name: str, data: bytes) -> None:
        try:
            card = _decode_card(name, data)
            listing.versions.setdefault(card.name, {})[card.pinned_version] = card
            self._complained.pop(name, None)
        except UndecodableMessage as error:
            self._complain(name, data, f"agent {name} has no readable card: {error}")

    def _read_instance(
        self,
        listing: DirectoryContent,
        lives: dict[str, ReplicaValue],
        key: str,
        copied: ReplicaValue | None,
    ) -> None:
        tokens = key.split(".")
        if len(tokens) != len(("live", "agent", "instance")):
            self._complain(key, b"", f"key {key} is no instance's: it has {len(tokens)} tokens")
        elif copied is None:
            _, agent, instance = tokens
            listing.leaving[instance] = agent
        else:
            lives[key] = copied

    def _read_route(self, listing: DirectoryContent, agent: str, data: bytes) -> None:
        try:
            listing.routes[agent] = AgentRoute.decode(route_key(agent), data)
            self._complained.pop(route_key(agent), None)
        except UndecodableMessage as error:
            reason = f"agent {agent} has no readable route: {error}"
            self._complain(route_key(agent), data, reason)

    def _complain(self, what: str, data: bytes, reason: str) -> None:
        """Log why a value can't be read, once."""
        if self._complained.get(what) != data:
            _log.warning("%s", reason)
        self._complained[what] = data


@lru_cache(maxsize=1024)
def _decode_card(name: str, data: bytes) -> AgentCard:
    """Return the card under ``card.<name>``."""
    card = AgentCard.decode(f"card.{name}", data)
    if card_key(card.name, card.pinned_version) != f"card.{name}":
        stated = f"{card.name} {card.pinned_version}".strip()
        raise UndecodableMessage(f"card.{name}", f"the card names agent {stated!r}")
    return card


def _version_in(data: bytes) -> str:
    """Return the version in the value of an instance's key."""
    if data == b"{}":
        return UNPINNED
    try:
        return Serving.decode("live", data).version or UNPINNED
    except UndecodableMessage:
        return UNPINNED
