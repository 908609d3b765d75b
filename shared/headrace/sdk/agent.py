"""Agents: an async function and what it says of itself."""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from headrace.model.agent_card import AgentCard, Provider
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.names import check_agent_name
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Emission
from headrace.sdk.ended import CleanUp
from headrace.sdk.errors import Misdeclared
from headrace.sdk.policy import FollowUps, Policy

type Streaming = Callable[[RunContext], AsyncIterator[Emission]]
"""An async generator function: it yields what it says."""

type Returning = Callable[[RunContext], Coroutine[Any, Any, Emission | None]]
"""A coroutine function: it emits through its context, and may return one thing more."""

type AgentFunction = Streaming | Returning


CATEGORIES = frozenset(
    [
        "identity",
        "transport",
        "tools",
        "output",
        "state",
        "multiAgent",
        "reasoning",
        "multimodal",
        "execution",
        "humanInTheLoop",
        "custom",
    ]
)
"""What an agent's capabilities are about."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing that an agent can do, for its card.

    A2A requires a name, a description and a tag: without them the id stands for all three.
    """

    id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    examples: Sequence[str] = ()
    """Prompts that show it."""
    input_modes: Sequence[str] = ()
    """Media types; empty: the agent's."""
    output_modes: Sequence[str] = ()
    """Media types; empty: the agent's."""

    def to_json(self) -> Json:
        """Return the A2A AgentSkill."""
        name = self.name or self.id
        skill: Json = {
            "id": self.id,
            "name": name,
            "description": self.description or name,
            "tags": list(self.tags) or [self.id],
            "examples": list(self.examples),
        }
        modes = {"inputModes": list(self.input_modes), "outputModes": list(self.output_modes)}
        return skill | {key: value for key, value in modes.items() if value}


@dataclass(frozen=True)
class Agent:
    """An agent that a worker can serve."""

    function: AgentFunction
    card: AgentCard
    policy: Policy = field(default_factory=Policy)
    concurrency: int | None = None
    """Runs of it that one worker works on at a time; None: as many as the worker has room for."""
    clean_up: CleanUp | None = None
    """Called with a task that has ended while no attempt was at work on it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.card.name

    @cached_property
    def streams(self) -> bool:
        """Whether its function yields."""
        return inspect.isasyncgenfunction(self.function)

    def streaming(self, ctx: RunContext) -> AsyncGenerator[Emission]:
        """Call a function that yields."""
        return cast("AsyncGenerator[Emission]", cast("Streaming", self.function)(ctx))

    def returning(self, ctx: RunContext) -> Coroutine[Any, Any, Emission | None]:
        """Call a function that returns."""
        return cast("Returning", self.function)(ctx)


def agent(  # noqa: PLR0913  # what a card says
    *,
    name: str = "",
    display_name: str = "",
    description: str = "",
    version: str = "1.0.0",
    icon_url: str = "",
    documentation_url: str = "",
    provider: Provider | None = None,
    skills: Sequence[Skill | Json] = (),
    input_modes: Sequence[str] = ("text/plain",),
    output_modes: Sequence[str] = ("text/plain",),
    capabilities: Json | None = None,
    bare_message: bool = False,
    streaming: bool = True,
    push_notifications: bool = True,
    extensions: Sequence[Json] = (),
    extended_card: Json | None = None,
    concurrency: int | None = None,
    max_attempts: int = 3,
    backoff: float = 1.0,
    timeout: float | None = None,
    follow_ups: FollowUps = "enqueue",
    start_within: float | None = None,
    clean_up: CleanUp | None = None,
) -> Callable[[AgentFunction], Agent]:
    """Make an agent of an async generator function or a coroutine function.

    Without a `name`, its id, it is called as the function is, without a `description` it is
    described by the first line of the function's docstring. `display_name` is what people call it,
    `icon_url`, `documentation_url` and `provider` are what they are shown beside. `input_modes` are
    the media types it takes, ``*/*`` for all; `capabilities` are AG-UI's AgentCapabilities, by
    category, as far as the agent knows better than the fleet; `bare_message` says that it may
    answer with a Message instead of a task; `streaming` and `push_notifications` say what A2A
    clients may ask for, `extensions` which A2A extensions of its own it has: those that a request
    activates are named in its input's metadata. `extended_card` is what callers with credentials
    are told beside: members of an A2A AgentCard; empty: there is one to come. `Policy` says what
    `max_attempts`, `backoff` and `timeout` are, `FollowUps` what `follow_ups` is. A task that no
    worker has begun `start_within` seconds after its message is REJECTED. `clean_up` is called with
    each task of the agent that was begun and has ended while no attempt was at work: canceled as it
    waited for its user, or over a dead worker's head; given up after the last attempt. It has 10 s,
    and is called again, for a minute and a half, where it fails.

    Raises:
        Misdeclared: the function is neither, the name can't be an agent's, or a number is off.
    """

    def declare(function: AgentFunction) -> Agent:
        card = AgentCard(
            name=name or function.__name__.replace("_", "-"),
            display_name=display_name,
            description=description or _first_line(function),
            version=version,
            icon_url=icon_url,
            documentation_url=documentation_url,
            provider=provider,
            skills=[s.to_json() if isinstance(s, Skill) else s for s in skills],
            input_modes=list(input_modes),
            output_modes=list(output_modes),
            capabilities=dict(capabilities or {}),
            bare_message=bare_message,
            streaming=streaming,
            push_notifications=push_notifications,
            extensions=list(extensions),
            extended=extended_card,
            follow_ups=follow_ups,
            start_within=start_within,
            cleans_up=clean_up is not None,
        )
        policy = Policy(max_attempts, backoff, timeout)
        declared = Agent(function, card, policy, concurrency, clean_up)
        _check(declared)
        return declared

    return declare


class Agents:
    """The agents that a worker serves: each name once."""

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        """Begin with `agents`.

        Raises:
            Misdeclared: two have one name.
        """
        self._by_name: dict[str, Agent] = {}
        for each in agents:
            self.add(each)

    def add(self, added: Agent) -> None:
        """Serve `added` too.

        Raises:
            Misdeclared: another agent has its name.
        """
        if self._by_name.setdefault(added.name, added) is not added:
            raise Misdeclared(f"two agents are called {added.name!r}")

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def _check(declared: Agent) -> None:
    unknown = declared.card.capabilities.keys() - CATEGORIES
    if unknown:
        raise Misdeclared(f"AG-UI knows no capabilities {sorted(unknown)}")
    try:
        check_agent_name(declared.name)
    except InvalidName as error:
        raise Misdeclared(str(error)) from None
    if not (declared.streams or inspect.iscoroutinefunction(declared.function)):
        raise Misdeclared(f"the function of agent {declared.name!r} must be async")
    if declared.concurrency is not None and declared.concurrency < 1:
        raise Misdeclared(f"the concurrency of agent {declared.name!r} must be at least 1")
    start_within = declared.card.start_within
    if start_within is not None and start_within <= 0:
        raise Misdeclared(f"the start_within of agent {declared.name!r} must be more than 0 s")
    _check_urls(declared.card)
    declared.policy.check(declared.name)


def _check_urls(card: AgentCard) -> None:
    """Check what pages link to and show: a URL of another kind could be code.

    Raises:
        Misdeclared: one is neither http nor https.
    """
    urls = {
        "icon_url": card.icon_url,
        "documentation_url": card.documentation_url,
        "provider's url": card.provider.url if card.provider else "",
    }
    for what, url in urls.items():
        if url and not url.startswith(("http://", "https://")):
            raise Misdeclared(
                f"the {what} of agent {card.name!r} must begin with http:// or https://"
            )


def _first_line(function: AgentFunction) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]
