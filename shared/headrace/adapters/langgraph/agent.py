"""Adapter for LangGraph graphs."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

from langgraph.pregel import Pregel
from langgraph.types import Command

from headrace import tracing
from headrace.adapters.busy import is_busy
from headrace.adapters.conversation.memory import Memory, check_memory
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.adapters.declaration import (
    ANY_MEDIA,
    Declaration,
    declare_capabilities,
    declare_card,
    with_caution,
)
from headrace.adapters.langgraph.calls import GraphCalls
from headrace.adapters.langgraph.events import LangGraphEvents
from headrace.adapters.langgraph.input import input_for, shared_state
from headrace.adapters.langgraph.interrupts import decided, resuming
from headrace.adapters.langgraph.memory import caution_about, in_fleet
from headrace.adapters.langgraph.reviewed import tools_of
from headrace.adapters.langgraph.threads import RunStart, Thread, check_unasked
from headrace.adapters.questions.answers import AnswerInvalid, MemoryLost, answers_of, expiry
from headrace.adapters.questions.approvals import Decision, ask, ask_again, refusal
from headrace.model.task import CANCELED
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Ending, Outcome, Reject
from headrace.sdk.errors import Misdeclared, Retryable

RUN = "headrace.run"
"""Key of the run's `RunContext` in a graph's configuration (``config["configurable"]``)."""

_OUT_OF_REACH = frozenset({"APIConnectionError", "TransportError"})
"""Names of the errors of model and HTTP clients for an unreachable server. By name, because nodes
may use any client."""


def langgraph_agent(  # noqa: PLR0913  # the adapter's options
    graph: Pregel[Any, Any, Any, Any],
    *,
    name: str,
    input_of: Callable[[RunContext], Any] | None = None,
    config: Mapping[str, Any] | None = None,
    answer_from: Collection[str] | None = None,
    output: str = "",
    state_keys: Sequence[str] = (),
    memory: Memory = "context",
    answer_within: float | None = None,
    saver: Literal["fleet", "graph"] = "fleet",
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs a compiled graph.

    Each task has its own thread. It starts with the state of the conversation's last completed
    task; messages of other tasks that this state lacks are added. An interrupt ends the run, and
    the task's next message resumes it. A worker that takes over continues after the last step that
    the checkpointer has. A graph without a checkpointer, or with an `InMemorySaver`, gets the
    fleet's (`FleetSaver`), and one without a store the fleet's (`FleetStore`).

    A graph that stays without a checkpointer gets the conversation as messages. `memory` limits
    both.

    Args:
        graph: The compiled graph.
        name: The agent's name in the fleet.
        input_of: A function that makes the graph's input from the run's context, for graphs whose
            input is not messages.
        config: The graph's configuration.
        answer_from: Nodes whose messages are emitted; by default, all.
        output: Key of the graph's state that is the answer or part of it.
        state_keys: Keys of the graph's state that are shared with user interfaces, in both
            directions.
        memory: How much of the conversation the graph gets.
        answer_within: Seconds after which an interrupt expires; None for no limit.
        saver: ``"graph"`` leaves the graph the checkpointer and the store that it was compiled
            with, or none.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: The graph has static breakpoints but no checkpointer to resume from, or as for
            `agent`.
    """
    check_memory(memory, name)
    graph, notes = in_fleet(graph) if saver == "fleet" else (graph, [])
    if not graph.checkpointer and (graph.interrupt_before_nodes or graph.interrupt_after_nodes):
        raise Misdeclared(
            f"{name}: a graph with breakpoints needs a checkpointer; compile it with one, or use"
            ' the fleet\'s (saver="fleet")'
        )
    declare_card(declared, Card(input_modes=ANY_MEDIA))
    declared.setdefault("description", f"The graph {graph.name}.")
    declare_capabilities(declared, interrupts=True)

    options = _GraphOptions(
        config or {}, input_of, answer_from, output, state_keys, memory, answer_within
    )

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        try:
            await _run(ctx, graph, options)
        except _Settled as settled:
            await ctx.emit(settled.ending)
        except MemoryLost as loss:
            await ask_again(ctx, loss)

    return replace(with_caution(run, caution_about(graph)), notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _GraphOptions:
    """Options of `langgraph_agent`."""

    config: Mapping[str, Any]
    input_of: Callable[[RunContext], Any] | None
    answer_from: Collection[str] | None
    output: str
    state_keys: Sequence[str]
    memory: Memory
    answer_within: float | None


class _Settled(Exception):  # no error
    """The run ends without running the graph."""

    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self.ending = ending


async def _run(ctx: RunContext, graph: Pregel[Any, Any, Any, Any], options: _GraphOptions) -> None:
    """Execute one run.

    Raises:
        _Settled: The run ends without running the graph.
        MemoryLost: The graph can't be resumed with the user's answer.
    """
    settings: Any = dict(options.config)
    settings["configurable"] = {**settings.get("configurable", {}), RUN: ctx}
    thread: Thread | None = None
    start = RunStart()
    if graph.checkpointer:
        thread = Thread(ctx, graph, settings)
        start, settings = await thread.begin(options.memory), thread.settings
    elif ctx.run > 1:
        await check_unasked(ctx)
    emitter = LangGraphEvents(
        ctx,
        options.answer_from,
        options.output,
        options.state_keys,
        calls=await _calls_before(ctx),
        tools=tools_of(graph),
        resumes=thread is not None,
    )
    if thread is not None:
        await emitter.catch_up(start)
        emitter.stops = start.stops
    if not start.is_over:
        try:
            given = await _given(ctx, graph, start, thread, options)
        except AnswerInvalid as error:
            await ask(ctx, start.interrupts, wrong=refusal(error))
            return
        await _stream(graph, given, settings, emitter, thread)
    ends = None if options.answer_within is None else expiry(options.answer_within)
    stop = None
    if emitter.stops and thread is not None:
        stop = await thread.question(ends)
    await emitter.end(start.interrupts, stop, ends)


async def _calls_before(ctx: RunContext) -> GraphCalls:
    """Return the calls that the task's log has."""
    if ctx.run == ctx.attempt == 1:
        return GraphCalls()
    return GraphCalls(turns_of_log(await runtime_of(ctx).past.entries()))


async def _stream(
    graph: Pregel[Any, Any, Any, Any],
    given: Any,  # noqa: ANN401  # a graph's input
    settings: Any,  # noqa: ANN401  # a RunnableConfig
    emitter: LangGraphEvents,
    thread: Thread | None,
) -> None:
    """Run the graph and emit its events.

    Raises:
        Retryable: A service that a node uses is busy or unreachable.
    """
    modes: Any = ["messages", "updates", "custom", "tasks", "values"]
    options: Any = {}
    if thread is not None:
        modes.append("checkpoints")
        # A worker that takes over must find every step that the log has.
        options["durability"] = "sync"
    calls = emitter.model_calls if tracing.is_enabled() else None
    stream: AsyncIterator[Any] = graph.astream(
        given,
        settings if calls is None else calls.added_to(settings),
        stream_mode=modes,
        subgraphs=True,
        **options,
    )
    try:
        async for place, mode, item in _retryable(stream):
            if mode != "checkpoints":
                await emitter.relay(place, mode, item)
            elif thread is not None and not place:
                await thread.reached(item)
    finally:
        emitter.model_calls.close()


async def _retryable(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield what a graph streams.

    Raises:
        Retryable: A model or another service that a node uses is busy or unreachable.
    """
    try:
        async for each in stream:
            yield each
    except Exception as error:
        if _is_passing(error):
            raise Retryable("a service that the graph uses is busy or unreachable") from error
        raise


def _is_passing(error: BaseException | None) -> bool:
    """Return whether a client library's error, or its cause, is temporary."""
    while error is not None:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return is_busy(status)
        kinds = {base.__name__ for base in type(error).__mro__}
        if isinstance(error, ConnectionError) or not _OUT_OF_REACH.isdisjoint(kinds):
            return True
        error = error.__cause__
    return False


async def _given(
    ctx: RunContext,
    graph: Pregel[Any, Any, Any, Any],
    start: RunStart,
    thread: Thread | None,
    options: _GraphOptions,
) -> Any:  # noqa: ANN401  # a graph's input
    """Return the graph's input, answers to its interrupts, or None to continue.

    Raises:
        AnswerInvalid: The user's answer does not match the requested schema.
        _Settled: The user stopped the graph, or answered too late.
    """
    if start.goes_on:
        return None
    if thread is not None and start.interrupts:
        answers = answers_of(ctx.parts, start.asked)
        if not start.waiting:
            await _pass(thread, decided(answers, start.interrupts[0]), options.state_keys)
            return None
        try:
            return Command(resume=resuming(answers, start.interrupts, start.waiting))
        except TimeoutError as error:
            raise _Settled(Reject(str(error))) from error
    if options.input_of is not None:
        return options.input_of(ctx)
    earlier = start if thread is not None else None
    sent = await input_for(ctx, graph, earlier, options.memory, options.output)
    return sent | shared_state(ctx, graph, earlier, options.state_keys)


async def _pass(thread: Thread, decision: Decision, state_keys: Sequence[str]) -> None:
    """Prepare to continue after a static breakpoint, with the state that the user edited.

    Raises:
        AnswerInvalid: The graph does not accept that state.
        _Settled: The user stopped the graph.
    """
    if not decision.approved:
        reason = decision.reason or "The user stopped the run."
        raise _Settled(Outcome.because(reason, CANCELED))
    if decision.arguments:
        if foreign := decision.arguments.keys() - set(state_keys):
            raise AnswerInvalid(
                f"editedArgs.{min(foreign)}: the graph's shared state has no such field"
            )
        await thread.update(decision.arguments)
