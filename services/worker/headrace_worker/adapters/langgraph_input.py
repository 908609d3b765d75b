"""A run as the input of a graph."""

from collections.abc import Sequence
from typing import Any

from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace_worker.adapters.as_json import as_json
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.langgraph_messages import messages_of
from headrace_worker.adapters.langgraph_threads import Beginning
from headrace_worker.conversation import answered, user_turn
from headrace_worker.remembering import Memory, conversation, with_content

with needs("langgraph"):
    from langgraph.channels import BinaryOperatorAggregate
    from langgraph.pregel import Pregel
    from langgraph.types import Overwrite


async def input_for(
    ctx: RunContext,
    graph: Pregel[Any, Any, Any, Any],
    begun: Beginning | None,
    memory: Memory,
    state_keys: Sequence[str],
) -> Json:
    """Return the messages that are new to a graph, and what an AG-UI client sent beside them.

    The client's state is given for `state_keys`, so far as it is another than the graph's. Its
    tools and its context are given under ``tools`` and ``ag-ui``, where the graph has such keys.

    Raises:
        Retryable, BusUnavailable: what was said before, or a file, can't be read.
    """
    if begun is None:
        turns = answered(await conversation(ctx, memory))
    else:
        own = user_turn(ctx.message, ctx.task, ctx.run)
        turns = [*answered(begun.earlier), *own]
        for turn in turns:
            turn.parts = await with_content(ctx, turn.parts)
    given: Json = {"messages": messages_of(turns)}
    known = begun.values if begun is not None and isinstance(begun.values, dict) else {}
    given |= _shared(ctx, graph, known, state_keys)
    tools, context = ctx.agui.get("tools") or [], ctx.agui.get("context") or []
    brought = {"tools": tools, "ag-ui": {"tools": tools, "context": context}}
    return given | {key: value for key, value in brought.items() if key in graph.channels}


def _shared(
    ctx: RunContext, graph: Pregel[Any, Any, Any, Any], known: Json, state_keys: Sequence[str]
) -> Json:
    state = ctx.agui.get("state")
    if not isinstance(state, dict):
        return {}
    changed = {
        key: state[key]
        for key in state_keys
        if key in state and (key not in known or as_json(known[key]) != state[key])
    }
    return {key: _instead(graph, key, value) for key, value in changed.items()}


def _instead(graph: Pregel[Any, Any, Any, Any], key: str, value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an update that sets a key: what its reducer makes of the client's is not asked."""
    reduces = isinstance(graph.channels.get(key), BinaryOperatorAggregate)
    return Overwrite(value) if reduces else value
