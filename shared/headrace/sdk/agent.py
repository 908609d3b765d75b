"""Agents: an async function together with its card, its retries, limits and clean-up."""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast, overload

from pydantic import ValidationError

from headrace.model.agent_card import AgentCard
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.model.subjects import MAX_VERSION, check_agent_name, encode_token
from headrace.model.task import TaskKey
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun, DirectStream, Reply
from headrace.sdk.drive import drive
from headrace.sdk.emit import Emission
from headrace.sdk.errors import Misdeclared, UnknownOption
from headrace.sdk.options import know_options, remedy
from headrace.sdk.policy import Limits, Retry
from headrace.sdk.source import called_at, declared_at
from headrace.sdk.threads import BlockingFunction, BlockingGenerator, in_thread, is_async
from headrace.sdk.tool_call import Callee


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


type Interceptor = Callable[[RunContext], AbstractAsyncContextManager[object]]
"""Returns an async context manager that is entered before each attempt and left after it.

It may emit output, is left with the agent's exception, and may raise another or suppress it: then
the run completes."""


type StreamFunction = Callable[[RunContext], AsyncIterator[Emission]]
"""An async generator function: it yields its output."""

type ResultFunction = Callable[[RunContext], Coroutine[Any, Any, Emission | None]]
"""A coroutine function: it emits through its context and may return one last emission."""

type AgentFunction = StreamFunction | ResultFunction | BlockingGenerator | BlockingFunction
"""Functions that are not async run in threads, one for each run."""


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
    interceptors: tuple[Interceptor, ...] = ()
    """Entered around each attempt, the first one outermost."""

    notes: tuple[str, ...] = ()
    """What a worker's log says of it at the start."""

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


_CARD, _RETRY, _LIMITS = Card(), Retry(), Limits()

_GROUPS: dict[str, type] = {"card": Card, "retry": Retry, "limits": Limits}
"""The options of `agent` that hold several values, with their types."""


@overload
def agent(function: AgentFunction, /) -> Agent: ...


@overload
def agent(
    *,
    name: str = ...,
    description: str = ...,
    version: str = ...,
    pinned: bool = ...,
    card: Card = ...,
    bare_message: bool = ...,
    retry: Retry = ...,
    limits: Limits = ...,
    follow_ups: FollowUps = ...,
    clean_up: CleanUp | None = ...,
    interceptors: Sequence[Interceptor] = ...,
) -> Callable[[AgentFunction], Agent]: ...


def agent(  # noqa: PLR0913  # what an agent is declared with
    function: AgentFunction | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    version: str = "1.0.0",
    pinned: bool = False,
    card: Card = _CARD,
    bare_message: bool = False,
    retry: Retry = _RETRY,
    limits: Limits = _LIMITS,
    follow_ups: FollowUps = "enqueue",
    clean_up: CleanUp | None = None,
    interceptors: Sequence[Interceptor] = (),
    **unknown: object,
) -> Agent | Callable[[AgentFunction], Agent]:
    """Declare a function as an agent: an async generator or coroutine function, or a blocking one.

    A function that is not async runs in a thread of its own for each run. It yields or returns its
    output; the context's methods, which are async, are not for it.

    ``@agent`` without parentheses takes every default.

    Args:
        function: The function, for ``@agent`` without parentheses.
        name: The agent's id. Default: the function's name, with ``-`` for ``_``.
        description: Default: the first line of the function's docstring.
        version: Version of the agent, for its card.
        pinned: Whether tasks stay with the version that began them. Workers of other versions then
            serve beside this one, each its own tasks.
        card: What else people and clients read about the agent: its skills, media types and so on.
        bare_message: Whether the agent may answer with a `Message` instead of a task.
        retry: How often, when and after which errors a run is attempted again.
        limits: Concurrent runs per worker, and the time that a run may wait and take.
        follow_ups: How a message to a running task is handled (see `FollowUps`).
        clean_up: Called with each started task of the agent that ended while no attempt was
            running: canceled while it waited for its user, canceled after its worker was killed, or
            failed after the last attempt. A call may take 10 s. A failed call is repeated for about
            90 s.
        interceptors: Functions that take the run's context and return an async context manager,
            which is entered around each attempt; the first one is outermost.
        **unknown: Other options are refused.

    Raises:
        Misdeclared: The function does not take the context, the name is not a valid agent name, or
            a value is invalid.
        UnknownOption: There is no such option.
    """

    def declare(function: AgentFunction) -> Agent:
        called = name or function.__name__.replace("_", "-")
        try:
            _check_options(unknown, called)
            _check_groups({"card": card, "retry": retry, "limits": limits}, called)
            retry.check(f"agent {called!r}")
            limits.check(f"agent {called!r}")
            announced = _announced(
                card,
                name=called,
                description=description or _first_line(function),
                version=version,
                pinned=pinned,
                bare_message=bare_message,
                follow_ups=follow_ups,
                start_within=limits.start_within,
                cleans_up=clean_up is not None,
            )
            card.check(called)
            if not is_async(function):
                function = in_thread(cast("BlockingGenerator", function))
            _check_interceptors(interceptors, called)
            declared = Agent(
                *(function, announced, retry, limits, clean_up), interceptors=tuple(interceptors)
            )
            _check(declared)
        except Misdeclared as error:
            raise type(error)(f"{error}{_place_of(function)}") from None
        return declared

    if function is None:
        return declare
    if isinstance(function, Agent):
        raise Misdeclared(f"agent {function.name!r} is already declared with @agent{called_at()}")
    if isinstance(function, Callee):
        raise Misdeclared(
            f"a tool can't be an agent; write @tool or @agent, or a function for each{called_at()}"
        )
    if not callable(function):
        raise Misdeclared(f"agent({function!r}): write @agent(name={function!r}){called_at()}")
    return declare(function)


know_options("@agent({}=…)", agent.__kwdefaults__ or ())


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


def _announced(card: Card, **others: object) -> AgentCard:
    """Return the card with its other fields.

    Raises:
        Misdeclared: A field has a value of another type.
    """
    try:
        return card.announced(**others)
    except ValidationError as invalid:
        problem = first_problem(invalid, "card")
        group = "" if problem.startswith(tuple(f"{option}:" for option in others)) else "card."
        raise Misdeclared(f"agent {others['name']!r}: {group}{problem}") from None


def _check_options(unknown: Iterable[str], agent_name: str) -> None:
    """Check that there are no others than the options of `agent`.

    Raises:
        UnknownOption: There are; the message says where the first one belongs.
    """
    for option in unknown:
        help_ = remedy(option, "an agent", agent.__kwdefaults__ or ())
        raise UnknownOption(f"unknown option {option!r} of agent {agent_name!r}{help_}")


def _check_groups(given: Mapping[str, object], agent: str) -> None:
    """Check the types of the options that hold several values.

    Raises:
        Misdeclared: One is of another type.
    """
    for option, kind in _GROUPS.items():
        if not isinstance(given[option], kind):
            raise Misdeclared(
                f"the {option} of agent {agent!r} must be a {kind.__name__}: "
                f"write {option}={kind.__name__}(…)"
            )


def _check(declared: Agent) -> None:
    try:
        check_agent_name(declared.name)
    except InvalidName as error:
        raise Misdeclared(str(error)) from None
    _check_parameters(declared)
    _check_version(declared.card)
    if declared.clean_up is not None and not callable(declared.clean_up):
        raise Misdeclared(f"the clean_up of agent {declared.name!r} must be an async function")


def _check_interceptors(given: object, agent: str) -> None:
    """Check that interceptors can be called; what they return shows when a run begins.

    Raises:
        Misdeclared: They are no list of functions.
    """
    if not isinstance(given, Sequence) or not all(map(callable, given)):
        raise Misdeclared(
            f"the interceptors of agent {agent!r} must be a list of functions that take the "
            "RunContext and return an async context manager"
        )


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


def _place_of(function: AgentFunction) -> str:
    """Return where the author declares the agent: with an adapter, the function is not theirs."""
    is_authors = not function.__module__.startswith("headrace.adapters.")
    return declared_at(function) if is_authors else called_at()


def _first_line(function: AgentFunction) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]
