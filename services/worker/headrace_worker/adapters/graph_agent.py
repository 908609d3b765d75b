"""A LangGraph graph, unchanged, as an agent."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Unpack

from headrace_worker.adapters.answers import answers_of
from headrace_worker.adapters.busy import is_busy
from headrace_worker.adapters.declaring import Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.langgraph_events import Telling
from headrace_worker.adapters.langgraph_input import input_for
from headrace_worker.adapters.langgraph_threads import Beginning, Thread
from headrace_worker.agent import Agent, agent
from headrace_worker.context import RunContext
from headrace_worker.errors import Retryable
from headrace_worker.remembering import Memory

with needs("langgraph"):
    from langgraph.pregel import Pregel
    from langgraph.types import Command

RUN = "headrace.run"
"""Key of a graph's configuration (``config["configurable"]``) at which nodes find the run's
`RunContext`."""

_OUT_OF_REACH = frozenset({"APIConnectionError", "TransportError"})
"""What the clients of models, and those for HTTP beneath them, call the error that a server can't
be reached. By name: a graph's nodes use whichever they like."""


def langgraph_agent(  # noqa: PLR0913  # what a graph can be told
    graph: Pregel[Any, Any, Any, Any],
    *,
    name: str,
    input_of: Callable[[RunContext], Any] | None = None,
    config: Mapping[str, Any] | None = None,
    answer_from: Collection[str] | None = None,
    output: str = "",
    state_keys: Sequence[str] = (),
    memory: Memory = "context",
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of a compiled graph.

    With a checkpointer, each task has a thread of its own, which begins with the state that the
    conversation's last completed task has left; what other tasks said meanwhile is told as
    messages. Without one, the graph is given the conversation as messages. Either goes as far back
    as `memory` says. `input_of` makes the graph's input of the run's context where it takes
    something else than messages. Only messages of the nodes in `answer_from` are said, where given.
    `output` names a key of its state that is the answer, or part of it; `state_keys` those that it
    shares with user interfaces, both ways. An interrupt ends the run, and the task's next message
    resumes it. A worker that takes over goes on behind the last step that the checkpointer has. The
    other keywords are `agent`'s.

    Raises:
        Misdeclared: as `agent`.
    """
    declared.setdefault("description", f"The graph {graph.name}.")

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        settings: Any = dict(config or {})
        settings["configurable"] = {**settings.get("configurable", {}), RUN: ctx}
        modes: Any = ["messages", "updates", "custom", "tasks", "values"]
        options: Any = {}
        begun: Beginning | None = None
        thread: Thread | None = None
        if graph.checkpointer:
            thread = Thread(ctx, graph, settings)
            begun, settings = await thread.begin(memory), thread.settings
            modes.append("checkpoints")
            # A step that the log tells is one that a successor finds.
            options["durability"] = "sync"
        telling = Telling(ctx, answer_from, output, state_keys)
        if begun is not None:
            await telling.catch_up(begun)
        if begun is None or not begun.is_over:
            given = await _given(ctx, graph, begun, memory, input_of, state_keys)
            stream: AsyncIterator[Any] = graph.astream(
                given, settings, stream_mode=modes, subgraphs=True, **options
            )
            async for place, mode, told in _retryable(stream):
                if mode != "checkpoints":
                    await telling.take(place, mode, told)
                elif thread is not None and not place:
                    await thread.reached(told)
        await telling.end()

    return run


async def _retryable(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield what a graph streams.

    Raises:
        Retryable: a model or another service that a node asked is busy or out of reach.
    """
    try:
        async for each in stream:
            yield each
    except Exception as error:
        if _is_passing(error):
            raise Retryable("what the graph asked is busy or out of reach") from error
        raise


def _is_passing(error: BaseException | None) -> bool:
    """Tell whether an error of some client's library, or its cause, is one that passes."""
    while error is not None:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return is_busy(status)
        kinds = {base.__name__ for base in type(error).__mro__}
        if isinstance(error, ConnectionError) or not _OUT_OF_REACH.isdisjoint(kinds):
            return True
        error = error.__cause__
    return False


async def _given(  # noqa: PLR0917  # what decides on it
    ctx: RunContext,
    graph: Pregel[Any, Any, Any, Any],
    begun: Beginning | None,
    memory: Memory,
    input_of: Callable[[RunContext], Any] | None,
    state_keys: Sequence[str],
) -> Any:  # noqa: ANN401  # a graph's input
    """Return what the graph is given: an input, answers to its interrupts, or None: go on."""
    if begun is not None and begun.goes_on:
        return None
    if begun is not None and begun.asked:
        answers = answers_of(ctx.parts, begun.asked)
        return Command(resume={name: answers[name] for name in begun.asked if name in answers})
    if input_of is not None:
        return input_of(ctx)
    return await input_for(ctx, graph, begun, memory, state_keys)
