"""What operators do with the versions of an agent: show, route, roll back and retire them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.directory import Directory, route_key
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model.agent_card import AgentCard, card_key
from headrace.model.agent_route import UNPINNED, AgentRoute, Candidate, in_order
from headrace.model.errors import HeadraceError, StateUnavailable
from headrace.model.events import Json
from headrace.model.messages import CountOpenTasks
from headrace.state_client import StateClient

_log = logging.getLogger(__name__)

_ROUNDS = 10
"""Tries to change a route while other operators change it too."""


class VersionUnknown(HeadraceError):
    """The agent has no such version: no worker has announced it in the last week."""

    code = "version_unknown"


class VersionInUse(HeadraceError):
    """The version can't be retired: it gets new tasks, or tasks are open with it."""

    code = "version_in_use"


class RouteRefused(HeadraceError):
    """The route can't be changed like this; the message contains the reason."""

    code = "route_refused"


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version of an agent."""

    card: AgentCard
    workers: list[str]
    """The live instances that serve it."""
    open_tasks: int | None
    """Tasks that are pinned to it and not over. None: task state does not answer."""
    is_current: bool
    candidate: Candidate | None
    """The rule by which it gets new tasks, if it is the candidate."""
    continued_by: str | None
    """The version that continues its tasks, if that is another one."""

    @property
    def version(self) -> str:
        """The version; empty: its tasks are not pinned."""
        return self.card.pinned_version

    def shown(self) -> Json:
        """Return it for operators."""
        candidate = self.candidate
        return {
            "version": self.version,
            "current": self.is_current,
            "candidate": None if candidate is None else candidate.shown(),
            "workers": self.workers,
            "openTasks": self.open_tasks,
            "continuedBy": self.continued_by,
        }


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback has changed."""

    route: AgentRoute
    version: str
    """The version that gets no more new tasks."""


@dataclass(slots=True)
class AgentVersions:
    """The versions of the agents in `directory`, which is up to date or was read a moment ago."""

    bus: Bus
    directory: Directory
    _bucket: Bucket = field(init=False)

    def __post_init__(self) -> None:
        """Use the directory's bucket."""
        self._bucket = Bucket(self.bus, self.bus.streams.agents)

    async def list(self, agent: str) -> list[VersionState]:
        """Return the agent's versions, lowest first.

        Raises:
            VersionUnknown: there is no such agent.
        """
        cards = self._known(agent)
        route = self.directory.route(agent)
        try:
            open_tasks = await self._open_tasks(agent)
        except StateUnavailable as error:
            _log.info("can't count the open tasks of agent %s: %s", agent, error)
            open_tasks = None
        candidate = route.candidate
        return [
            VersionState(
                cards[version],
                sorted(self.directory.serving(agent, version)),
                None if open_tasks is None else open_tasks.get(version, 0),
                version == route.current,
                candidate if candidate is not None and candidate.version == version else None,
                route.moved.get(version),
            )
            for version in in_order(cards)
        ]

    async def promote(self, agent: str, version: str) -> AgentRoute:
        """Send all new tasks to `version`.

        Raises:
            VersionUnknown: the agent has no such version.
            RouteRefused: the route is being changed concurrently.
            BusUnavailable: NATS does not answer.
        """
        self._check(agent, version)
        return await self._change(agent, lambda route: route.promoting(version))

    async def try_out(self, agent: str, candidate: Candidate) -> AgentRoute:
        """Send some of the new tasks to the candidate's version, and to no other candidate.

        Raises:
            VersionUnknown, BusUnavailable: as `promote`.
            RouteRefused: the version gets all new tasks already.
        """
        self._check(agent, candidate.version)

        def tried(route: AgentRoute) -> AgentRoute:
            if route.current == candidate.version:
                raise RouteRefused(f"agent {agent}: {candidate.version!r} gets all tasks already")
            return route.trying(candidate)

        return await self._change(agent, tried)

    async def roll_back(self, agent: str, *, move: bool = False) -> RolledBack:
        """Send new tasks to the version before: without the candidate, or the one that was current.

        With `move`, that version also continues the tasks of the one that gets no more.

        Raises:
            VersionUnknown, BusUnavailable: as `promote`.
            RouteRefused: there is no version to return to.
        """
        self._known(agent)
        left = UNPINNED

        def rolled_back(route: AgentRoute) -> AgentRoute:
            nonlocal left
            left = route.current if route.candidate is None else route.candidate.version
            before = route.rolled_back()
            if before is None:
                raise RouteRefused(f"agent {agent} has no version to return to")
            return before.moving(left, before.current) if move else before

        return RolledBack(await self._change(agent, rolled_back), left)

    async def retire(self, agent: str, version: str, *, move_to: str | None = None) -> int:
        """Forget a version without open tasks; return how many tasks `move_to` continues.

        Raises:
            VersionUnknown, BusUnavailable: as `promote`.
            VersionInUse: it gets new tasks, or it has open tasks and `move_to` is None.
            StateUnavailable: task state does not answer.
        """
        self._check(agent, version)
        if move_to is not None:
            self._check(agent, move_to)
        if self.directory.route(agent).is_routed_to(version):
            raise VersionInUse(
                f"version {version!r} of agent {agent} gets new tasks; route them to another one"
            )
        count = (await self._open_tasks(agent)).get(version, 0)
        if count and move_to is None:
            raise VersionInUse(
                f"{count} tasks are open with version {version!r} of agent {agent}; wait until "
                "they are over, or let another version continue them"
            )

        def retired(route: AgentRoute) -> AgentRoute:
            if route.is_routed_to(version):
                raise VersionInUse(f"version {version!r} of agent {agent} gets new tasks again")
            route = route.without(version)
            return route if move_to is None else route.moving(version, move_to)

        await self._change(agent, retired)
        await self._bucket.delete(card_key(agent, version))
        return count

    def _known(self, agent: str) -> dict[str, AgentCard]:
        cards = dict(self.directory.versions(agent))
        if not cards:
            raise VersionUnknown(f"agent {agent!r} does not exist")
        return cards

    def _check(self, agent: str, version: str) -> None:
        cards = self._known(agent)
        if version not in cards:
            known = ", ".join(repr(one) for one in in_order(cards))
            raise VersionUnknown(f"agent {agent} has no version {version!r}; it has {known}")

    async def _change(self, agent: str, change: Callable[[AgentRoute], AgentRoute]) -> AgentRoute:
        """Store the changed route; all gateways have it a moment later."""
        key = route_key(agent)
        for _ in range(_ROUNDS):
            found = await self._bucket.get(key)
            stored = None if found.data is None else AgentRoute.decode(key, found.data)
            changed = change(stored or self.directory.route(agent))
            try:
                await self._bucket.put(key, changed.encode(), found.sequence)
            except KeyChanged:
                continue
            return changed
        raise RouteRefused(f"the route of agent {agent} is being changed concurrently; try again")

    async def _open_tasks(self, agent: str) -> dict[str, int]:
        return (await StateClient(self.bus).open_tasks(CountOpenTasks(agent=agent))).versions
