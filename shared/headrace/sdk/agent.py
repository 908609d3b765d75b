"""Agents: an async function together with its card, its retries, limits and clean-up."""

import inspect
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast, overload

from pydantic import ValidationError

from headrace.model.agent_card import AgentCard, Provider
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.model.subjects import MAX_VERSION, check_agent_name, encode_token
from headrace.model.task import TaskKey
from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun, DirectStream, Reply
from headrace.sdk.drive import drive
from headrace.sdk.emit import Emission
from headrace.sdk.errors import Misdeclared
from headrace.sdk.policy import Limits, Retry
from headrace.sdk.source import called_at, declared_at
from headrace.sdk.threads import BlockingFunction, BlockingGenerator, in_thread, is_async


@dataclass(frozen=True, slots=True)
class EndedTask:
    """The ended task."""

    key: TaskKey
    context: str
    """Id of the conversation: A2A's contextId."""
    owner: str
    """Owner of the task, as a subject token."""
    task: Json
    """The task with its final status, from its log: an A2A v1.0 Task."""

    events: list[tuple[int, Json]]
    """The log's StreamResponses with their generations: ``[(1, {"task": …}), …]``."""

    @property
    def state(self) -> str:
        """``TASK_STATE_CANCELED``, ``TASK_STATE_FAILED`` or ``TASK_STATE_REJECTED``."""
        return str(self.task["status"]["state"])


type CleanUp = Callable[[EndedTask], Coroutine[Any, Any, None]]
"""Ends the work that the agent started elsewhere for the task."""


type FollowUps = Literal["enqueue", "interrupt", "reject", "steer"]
"""How a message to a running task is handled.

- ``enqueue``: it becomes the next run's input.
- ``interrupt``: it becomes the next run's input, and the running agent is stopped.
- ``reject``: it is refused.
- ``steer``: the running agent gets it (`RunContext.inbox`). If the agent does not read it, it
becomes the next run's input."""


type StreamFunction = Callable[[RunContext], AsyncIterator[Emission]]
"""An async generator function: it yields its output."""

type ResultFunction = Callable[[RunContext], Coroutine[Any, Any, Emission | None]]
"""A coroutine function: it emits through its context and may return one last emission."""

type AgentFunction = StreamFunction | ResultFunction | BlockingGenerator | BlockingFunction
"""Functions that are not async run in threads, one for each run."""


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
"""The categories of AG-UI's AgentCapabilities."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill on the agent's card.

    A2A requires a name, a description and a tag. The id is the default for all three.
    """

    id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    examples: Sequence[str] = ()
    """Example prompts, such as ``"Translate this page into French."``."""
    input_modes: Sequence[str] = ()
    """Media types such as ``"text/plain"``. Empty: the agent's input modes."""
    output_modes: Sequence[str] = ()
    """Media types. Empty: the agent's output modes."""

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
    retry: Retry = field(default_factory=Retry)
    limits: Limits = field(default_factory=Limits)
    clean_up: CleanUp | None = None
    """Called with a task that ended while no attempt was running."""
    triggers: tuple[Json, ...] = ()
    """What `headrace.on` has declared, as in headrace.yaml, without the agent's name."""
    schedules: tuple[Json, ...] = ()
    """What `headrace.schedule` has declared, likewise."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.card.name

    async def __call__(self, message: str | Json) -> Reply:
        """Call the agent as a function, in this process, without a fleet: ``await shop("nails")``.

        Nothing is stored. What only a fleet can do raises `FleetRequired`: delegation, questions in
        the middle of a run, messages to a running agent. Exceptions of the agent are raised here.

        Args:
            message: Text, or an A2A v1.0 Message.

        Raises:
            MalformedOutput: The agent's output is invalid.
            FleetRequired: The agent does what needs a fleet.
        """
        async with aclosing(self.stream(message)) as outputs:
            return Reply([output async for output in outputs])

    def stream(self, message: str | Json) -> DirectStream:
        """Call the agent as a function, and yield its output as it comes (see `__call__`).

        The agent waits until each output is taken. If the caller stops early, the agent is
        cancelled.
        """

        def prepare() -> tuple[DirectRun, Coroutine[Any, Any, None]]:
            run = DirectRun(self.name, message)
            return run, drive(self, run.context)

        return DirectStream(prepare)

    @cached_property
    def streams(self) -> bool:
        """Whether the function is an async generator."""
        return inspect.isasyncgenfunction(self.function)

    def streaming(self, ctx: RunContext) -> AsyncGenerator[Emission]:
        """Call the async generator function."""
        return cast("AsyncGenerator[Emission]", cast("StreamFunction", self.function)(ctx))

    def returning(self, ctx: RunContext) -> Coroutine[Any, Any, Emission | None]:
        """Call the coroutine function."""
        return cast("ResultFunction", self.function)(ctx)


_RETRY, _LIMITS = Retry(), Limits()


@overload
def agent(function: AgentFunction, /) -> Agent: ...


@overload
def agent(  # what a card says
    *,
    name: str = ...,
    display_name: str = ...,
    description: str = ...,
    version: str = ...,
    pinned: bool = ...,
    icon_url: str = ...,
    documentation_url: str = ...,
    provider: Provider | None = ...,
    skills: Sequence[Skill | Json] = ...,
    input_modes: Sequence[str] = ...,
    output_modes: Sequence[str] = ...,
    capabilities: Json | None = ...,
    bare_message: bool = ...,
    streaming: bool = ...,
    push_notifications: bool = ...,
    extensions: Sequence[Json] = ...,
    extended_card: Json | None = ...,
    retry: Retry = ...,
    limits: Limits = ...,
    follow_ups: FollowUps = ...,
    clean_up: CleanUp | None = ...,
) -> Callable[[AgentFunction], Agent]: ...


def agent(  # noqa: PLR0913  # what a card says
    function: AgentFunction | None = None,
    /,
    *,
    name: str = "",
    display_name: str = "",
    description: str = "",
    version: str = "1.0.0",
    pinned: bool = False,
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
    retry: Retry = _RETRY,
    limits: Limits = _LIMITS,
    follow_ups: FollowUps = "enqueue",
    clean_up: CleanUp | None = None,
) -> Agent | Callable[[AgentFunction], Agent]:
    """Declare a function as an agent: an async generator or coroutine function, or a blocking one.

    A function that is not async runs in a thread of its own for each run. It yields or returns its
    output; the context's methods, which are async, are not for it.

    ``@agent`` without parentheses takes every default.

    Args:
        function: The function, for ``@agent`` without parentheses.
        name: The agent's id. Default: the function's name, with ``-`` for ``_``.
        display_name: Name shown to people. Default: `name`.
        description: Default: the first line of the function's docstring.
        version: Version of the agent, for its card.
        pinned: Whether tasks stay with the version that began them. Workers of other versions then
            serve beside this one, each its own tasks.
        icon_url: URL of an icon, for the card; ``http://`` or ``https://``.
        documentation_url: URL of the documentation, for the card; ``http://`` or ``https://``.
        provider: The organization that runs the agent, for the card.
        skills: `Skill` objects, or A2A AgentSkill objects as dicts.
        input_modes: Accepted media types; ``*/*`` accepts all.
        output_modes: Media types of the answers.
        capabilities: AG-UI's AgentCapabilities by category, such as ``{"tools": {"supported":
            True}}``. They take precedence over what the fleet declares.
        bare_message: Whether the agent may answer with a `Message` instead of a task.
        streaming: Whether A2A clients may stream.
        push_notifications: Whether A2A clients may register webhooks.
        extensions: The agent's own A2A extensions, as AgentExtension objects.
            `RunContext.extensions` holds those that a request activates.
        extended_card: Members of an A2A AgentCard that only callers with credentials get. None: the
            agent has no extended card. Empty: it has one that is not configured yet.
        retry: How often, when and after which errors a run is attempted again.
        limits: Concurrent runs per worker, and the time that a run may wait and take.
        follow_ups: How a message to a running task is handled (see `FollowUps`).
        clean_up: Called with each started task of the agent that ended while no attempt was
            running: canceled while it waited for its user, canceled after its worker was killed, or
            failed after the last attempt. A call may take 10 s. A failed call is repeated for about
            90 s.

    Raises:
        Misdeclared: The function does not take the context, the name is not a valid agent name, or
            a value is invalid.
    """

    def declare(function: AgentFunction) -> Agent:
        called = name or function.__name__.replace("_", "-")
        try:
            _check_policy(retry, limits, called)
            card = _card(
                name=called,
                display_name=display_name,
                description=description or _first_line(function),
                version=version,
                pinned=pinned,
                icon_url=icon_url,
                documentation_url=documentation_url,
                provider=provider,
                skills=_skills(skills),
                input_modes=input_modes,
                output_modes=output_modes,
                capabilities=capabilities or {},
                bare_message=bare_message,
                streaming=streaming,
                push_notifications=push_notifications,
                extensions=extensions,
                extended=extended_card,
                follow_ups=follow_ups,
                start_within=limits.start_within,
                cleans_up=clean_up is not None,
            )
            if not is_async(function):
                function = in_thread(cast("BlockingGenerator", function))
            declared = Agent(function, card, retry, limits, clean_up)
            _check(declared)
        except Misdeclared as error:
            raise Misdeclared(f"{error}{declared_at(function)}") from None
        return declared

    if function is None:
        return declare
    if isinstance(function, Agent):
        raise Misdeclared(f"agent {function.name!r} is already declared with @agent{called_at()}")
    if hasattr(function, "call"):
        raise Misdeclared(
            f"a tool can't be an agent; write @tool or @agent, or a function for each{called_at()}"
        )
    if not callable(function):
        raise Misdeclared(f"agent({function!r}): write @agent(name={function!r}){called_at()}")
    return declare(function)


class Agents:
    """The agents that a worker serves. Each name occurs once."""

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        """Start with `agents`.

        Raises:
            Misdeclared: Two agents have the same name.
        """
        self._by_name: dict[str, Agent] = {}
        for each in agents:
            self.add(each)

    def add(self, added: Agent) -> None:
        """Add an agent.

        Raises:
            Misdeclared: Another agent has this name.
        """
        if self._by_name.setdefault(added.name, added) is not added:
            place = declared_at(added.function)
            raise Misdeclared(f"two agents are named {added.name!r}; names must be unique{place}")

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def _card(**fields: object) -> AgentCard:
    """Return the card with these fields.

    Raises:
        Misdeclared: A field has a value of another type.
    """
    try:
        return AgentCard.model_validate(fields)
    except ValidationError as invalid:
        # The option of `agent` has a longer name.
        problem = re.sub(r"^extended\b", "extended_card", first_problem(invalid, "card"))
        raise Misdeclared(f"agent {fields['name']!r}: {problem}") from None


def _skills(given: object) -> object:
    """Return the skills as on the card; what is no list of skills is left to its check."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        return given
    return [each.to_json() if isinstance(each, Skill) else each for each in given]


def _check_policy(retry: object, limits: object, agent: str) -> None:
    """Check the options before the card is made from them.

    Raises:
        Misdeclared: One is of another type, or has an invalid value.
    """
    for option, value, kind in (("retry", retry, Retry), ("limits", limits, Limits)):
        if not isinstance(value, kind):
            raise Misdeclared(
                f"the {option} of agent {agent!r} must be a {kind.__name__}: "
                f"write {option}={kind.__name__}(…)"
            )
        value.check(agent)


def _check(declared: Agent) -> None:
    unknown = declared.card.capabilities.keys() - CATEGORIES
    if unknown:
        raise Misdeclared(f"unknown capabilities {sorted(unknown)}; AG-UI has {sorted(CATEGORIES)}")
    try:
        check_agent_name(declared.name)
    except InvalidName as error:
        raise Misdeclared(str(error)) from None
    _check_parameters(declared)
    _check_version(declared.card)
    _check_urls(declared.card)
    if declared.clean_up is not None and not callable(declared.clean_up):
        raise Misdeclared(f"the clean_up of agent {declared.name!r} must be an async function")


def _check_version(card: AgentCard) -> None:
    """Check that a pinned version can be part of subjects and consumers' names.

    Raises:
        Misdeclared: It is empty or too long.
    """
    if not card.pinned:
        return
    try:
        is_short = len(encode_token(card.version)) <= MAX_VERSION
    except InvalidName:
        is_short = False
    if not is_short:
        raise Misdeclared(
            f"the version of agent {card.name!r} must have 1 to {MAX_VERSION} characters, because "
            "its tasks are pinned to it; others than letters, digits and '-' count three times"
        )


def _check_parameters(declared: Agent) -> None:
    """Check that the function takes the context.

    Raises:
        Misdeclared: It takes no argument, or more.
    """
    try:
        inspect.signature(declared.function).bind(None)
    except TypeError:
        name = declared.function.__name__
        raise Misdeclared(
            f"the function of agent {declared.name!r} must take one argument, the RunContext: "
            f"async def {name}(ctx)"
        ) from None


def _check_urls(card: AgentCard) -> None:
    """Check the URLs that pages show: another scheme could run code.

    Raises:
        Misdeclared: A URL is neither http nor https.
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
