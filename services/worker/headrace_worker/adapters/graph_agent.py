"""A LangGraph graph, unchanged, as an agent."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Unpack

from headrace_worker.adapters.answers import answers_of
from headrace_worker.adapters.declaring import Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.langgraph_events import Telling
from headrace_worker.adapters.langgraph_messages import human, messages_of
from headrace_worker.agent import Agent, agent
from headrace_worker.context import RunContext
from headrace_worker.conversation import answered
from headrace_worker.remembering import Memory, conversation

with needs("langgraph"):
    from langgraph.pregel import Pregel
    from langgraph.types import Command

_MODES: Any = ["messages", "updates", "custom", "tasks"]
_BASE = "langgraph.checkpoint"
"""Key, in the leg's checkpoint, of the graph's checkpoint that the leg began with."""


def langgraph_agent(  # noqa: PLR0913  # what a graph can be told
    graph: Pregel[Any, Any, Any, Any],
    *,
    name: str,
    input_of: Callable[[RunContext], Any] | None = None,
    config: Mapping[str, Any] | None = None,
    thread: Callable[[RunContext], str] = lambda ctx: ctx.context,
    answer_from: Collection[str] | None = None,
    output: str = "",
    state_keys: Sequence[str] = (),
    memory: Memory = "context",
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of a compiled graph.

    A graph with a checkpointer keeps the conversation itself, under the thread that `thread` names;
    one without is given it as messages, as far back as `memory` says. `input_of` makes its input of
    the run's context where it takes something else than messages. Only messages of the nodes in
    `answer_from` are said, where given. `output` names a key of its state that is the answer, or
    part of it; `state_keys` those that user interfaces see as shared state. An interrupt ends the
    leg; the follow-up resumes it. A worker that takes over begins where the leg began, with the
    graph's checkpoint of then. The other keywords are `agent`'s.

    Raises:
        Misdeclared: as `agent`.
    """
    declared.setdefault("description", f"The graph {graph.name}.")

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        settings: Any = dict(config or {})
        named = {**settings.get("configurable", {}), "thread_id": thread(ctx)}
        settings["configurable"] = named
        waiting: list[str] = []
        if graph.checkpointer:
            waiting = await _begin(ctx, graph, settings)
        given: Any = Command(resume=answers_of(ctx.parts, waiting)) if waiting else None
        if given is None:
            given = input_of(ctx) if input_of else await _messages(ctx, graph, memory)
        telling = Telling(ctx, answer_from, output, state_keys)
        stream: AsyncIterator[Any] = graph.astream(
            given, settings, stream_mode=_MODES, subgraphs=True
        )
        async for place, mode, told in stream:
            await telling.take(place, mode, told)
        await telling.end()

    return run


async def _begin(ctx: RunContext, graph: Pregel[Any, Any, Any, Any], settings: Any) -> list[str]:  # noqa: ANN401  # a RunnableConfig
    """Set out from where this leg began, and return the interrupts that its message answers."""
    named = settings["configurable"]
    if isinstance(ctx.checkpoint_data, dict) and _BASE in ctx.checkpoint_data:
        base = ctx.checkpoint_data[_BASE]
        if base is None:
            await graph.checkpointer.adelete_thread(named["thread_id"])  # type: ignore[union-attr]
        else:
            named["checkpoint_id"] = base
    state = await graph.aget_state(settings)
    base = state.config.get("configurable", {}).get("checkpoint_id")
    await ctx.checkpoint({_BASE: base})
    return [interrupt.id for interrupt in state.interrupts]


async def _messages(ctx: RunContext, graph: Pregel[Any, Any, Any, Any], memory: Memory) -> Any:  # noqa: ANN401  # a graph's input
    if graph.checkpointer:
        return {"messages": [human(ctx.parts)]}
    return {"messages": messages_of(answered(await conversation(ctx, memory)))}
