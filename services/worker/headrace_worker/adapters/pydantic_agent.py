"""A pydantic-ai agent, unchanged, as an agent."""

from collections.abc import Callable
from typing import Any, Unpack

from headrace_worker.adapters.busy import is_busy
from headrace_worker.adapters.declaring import Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.pydantic_events import Telling
from headrace_worker.adapters.pydantic_messages import history_of
from headrace_worker.agent import Agent, agent
from headrace_worker.context import RunContext
from headrace_worker.conversation import answered
from headrace_worker.emission import Reject
from headrace_worker.errors import Retryable
from headrace_worker.remembering import Memory, conversation

with needs("pydantic-ai"):
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import DeferredToolRequests, ExternalToolset, ToolDefinition
    from pydantic_ai.exceptions import (
        ContentFilterError,
        ModelAPIError,
        ModelConnectionError,
        ModelHTTPError,
        ModelRateLimitError,
        ModelRequestTimeout,
        ModelServerError,
        ModelUnavailableError,
    )

_BUSY = (
    ModelConnectionError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
)


def pydantic_ai_agent(
    wrapped: PydanticAgent[Any, Any],
    *,
    name: str,
    deps: Any | Callable[[RunContext], Any] = None,  # noqa: ANN401  # whatever the agent depends on
    memory: Memory = "context",
    show_thinking: bool = True,
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of a pydantic-ai agent.

    `deps` are its dependencies, or a function that makes them of the run's context. The tools that
    an AG-UI client brings are offered to its model beside its own; where it calls them the run ends
    with the calls pending. Output that is no text becomes a data artifact. The other keywords are
    `agent`'s.

    Raises:
        Misdeclared: as `agent`.
    """
    declared.setdefault("description", f"The pydantic-ai agent {wrapped.name or name}.")

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        turns = answered(await conversation(ctx, memory))
        prompt, history = history_of(turns)
        depends = deps(ctx) if callable(deps) else deps
        telling = Telling(ctx, thinking=show_thinking)
        asked = {"deps": depends, "message_history": history, **_frontend(ctx, wrapped)}
        try:
            async with wrapped.run_stream_events(prompt, **asked) as events:
                async for event in events:
                    await telling.take(event)
        except ModelAPIError as error:
            if _is_busy(error):
                raise Retryable("the model is busy or out of reach") from error
            raise
        except ContentFilterError:
            await ctx.emit(Reject("The answer was filtered."))

    return run


def _is_busy(error: ModelAPIError) -> bool:
    return isinstance(error, _BUSY) or (
        isinstance(error, ModelHTTPError) and is_busy(error.status_code)
    )


def _frontend(ctx: RunContext, wrapped: PydanticAgent[Any, Any]) -> Any:  # noqa: ANN401  # keywords
    """Return what a run is told of the tools that its client brings."""
    sent = ctx.agui.get("tools") or []
    if not sent:
        return {}
    offered = [
        ToolDefinition(
            name=tool["name"],
            description=tool.get("description"),
            parameters_json_schema=tool.get("parameters") or {"type": "object", "properties": {}},
        )
        for tool in sent
    ]
    output = [wrapped.output_type, DeferredToolRequests]
    return {"toolsets": [ExternalToolset(offered)], "output_type": output}
