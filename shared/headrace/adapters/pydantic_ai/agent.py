"""Adapter for pydantic-ai agents."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Unpack

from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.capabilities import ReinjectSystemPrompt
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
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset

from headrace.adapters.busy import is_busy
from headrace.adapters.client_tools import client_tools
from headrace.adapters.conversation.memory import Memory, check_memory, conversation
from headrace.adapters.conversation.turns import (
    Turn,
    other_parts,
    without_answers,
    without_restated,
)
from headrace.adapters.declaration import ANY_MEDIA, Declaration, declare_capabilities, declare_card
from headrace.adapters.pydantic_ai.events import PydanticEvents, ReplayedResponses
from headrace.adapters.pydantic_ai.messages import FORMAT, Past, prompt_of
from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.approvals import (
    Decision,
    ask_again,
    call_of,
    decisions_of,
    interrupts_before,
)
from headrace.model.events import Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Reject
from headrace.sdk.errors import Retryable

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
    approve_within: float | None = None,
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs a pydantic-ai agent.

    The tools of an AG-UI client are offered to the model in addition to the agent's own; a call of
    one ends the run with that call pending. Tools that need approval end the run with one interrupt
    for each call. Output that is not text becomes a data artifact.

    Args:
        wrapped: The pydantic-ai agent.
        name: The agent's name in the fleet.
        deps: The agent's dependencies, or a function that makes them from the run's context. Those
            with a ``state`` (pydantic-ai's StateDeps) get the state shared with the client.
        memory: How much of the conversation the agent gets.
        show_thinking: Whether to emit reasoning.
        approve_within: Seconds after which an open approval counts as refused; None for no limit.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: As for `agent`.
    """
    check_memory(memory, name)
    declare_card(declared, Card(input_modes=ANY_MEDIA))
    declared.setdefault("description", f"The pydantic-ai agent {wrapped.name or name}.")
    declare_capabilities(
        declared,
        client_tools=True,
        structured=wrapped.output_type is not str,
        approvals=any(tool.requires_approval for tool in _own_tools(wrapped)),
    )

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        turns = without_restated(await conversation(ctx, memory, FORMAT))
        try:
            start = await _begin(ctx, turns, is_text=wrapped.output_type is str)
        except AnswerInvalid as error:
            await ask_again(ctx, error)
            return
        if start is None:
            return
        used = {call.id for turn in turns for call in turn.calls}
        replayed = start.past if start.replays else Past()
        emitter = PydanticEvents(
            ctx, used, replayed.results, thinking=show_thinking, approve_within=approve_within
        )
        own = _own_tools(wrapped)
        emitter.arguments = {tool.name: tool.function_schema.json_schema for tool in own}
        options = {
            "deps": _with_state(deps(ctx) if callable(deps) else deps, ctx),
            "message_history": start.past.messages,
            "deferred_tool_results": start.deferred,
            "capabilities": [ReinjectSystemPrompt(), ReplayedResponses(emitter, replayed)],
            **_frontend(ctx, wrapped),
        }
        await _drive(ctx, emitter, wrapped.run_stream_events(start.prompt, **options))

    return run


async def _drive(
    ctx: RunContext,
    emitter: PydanticEvents,
    running: AbstractAsyncContextManager[AsyncIterator[Any]],
) -> None:
    """Emit what a run of the agent does.

    Raises:
        Retryable: The model is busy or unreachable.
    """
    try:
        async with running as events:
            async for event in events:
                await emitter.relay(event)
    except ModelAPIError as error:
        if _is_busy(error):
            raise Retryable("the model is busy or unreachable") from error
        raise
    except ContentFilterError:
        await ctx.emit(Reject("The answer was filtered."))


def _own_tools(wrapped: PydanticAgent[Any, Any]) -> list[Tool[Any]]:
    """Return the agent's own tools."""
    own = (toolset for toolset in wrapped.toolsets if isinstance(toolset, FunctionToolset))
    return [tool for toolset in own for tool in toolset.tools.values()]


@dataclass(slots=True)
class _PydanticStart:
    """Where a run starts."""

    past: Past
    prompt: Any = None
    """The user's prompt; None if it starts with tool results or calls."""
    deferred: DeferredToolResults | None = None
    """The user's decisions."""
    replays: bool = False
    """Whether to execute the last response's calls that have no results."""


async def _begin(ctx: RunContext, turns: Sequence[Turn], *, is_text: bool) -> _PydanticStart | None:
    """Return where the run starts; None if it only has to be ended.

    With `is_text`, an answer is text, which has been emitted completely.

    Raises:
        AnswerInvalid: The user's answer matches none of the requested schemas.
    """
    past, mine = Past(), (ctx.task, ctx.run)
    given = [part for turn in turns if _is_input(turn, mine) for part in turn.parts]
    turns = without_answers(turns)
    message = [part for turn in turns if _is_input(turn, mine) for part in turn.parts]
    others = [turn for turn in turns if not _is_input(turn, mine)]
    if others and others[-1].role == "user" and not others[-1].task:
        # The input of an AG-UI client, which has no task yet.
        message = [*others.pop().parts]
    response = next((turn for turn in reversed(others) if turn.role == "assistant"), None)
    is_own = response is not None and (response.task, response.run) == mine
    for turn in turns if is_own else others:
        past.add(turn)
    if is_own:
        return _go_on(past, is_text=is_text)
    if past.open and response is not None and response.task == ctx.task:
        return await _answer(ctx, past, given)
    past.close()
    return _PydanticStart(past, prompt_of(message) or None)


def _go_on(past: Past, *, is_text: bool) -> _PydanticStart | None:
    """Continue after a response of this run that an earlier attempt saved."""
    if is_text and not past.calls:
        return None
    if past.open or not past.calls:
        return _PydanticStart(past, replays=True)
    past.close()
    return _PydanticStart(past)


async def _answer(ctx: RunContext, past: Past, message: Sequence[Json]) -> _PydanticStart | None:
    """Resume open calls of an earlier run with the user's answers."""
    interrupts = await interrupts_before(ctx)
    named = {call_of(interrupt) for interrupt in interrupts}
    waiting = [call for call in past.open if call.tool_call_id in named]
    if waiting and not message:
        await ask_again(ctx)
        return None
    for call in past.open:
        if call.tool_call_id not in named:
            past.refuse(call)
    if not waiting:
        past.close()
        return _PydanticStart(past, prompt_of(message) or None)
    decided = decisions_of(message, interrupts)
    past.put_results()
    approvals: Any = {call.tool_call_id: _approval(decided[call.tool_call_id]) for call in waiting}
    extra = prompt_of(other_parts(message))
    return _PydanticStart(past, extra or None, DeferredToolResults(approvals=approvals))


def _approval(decided: Decision) -> ToolApproved | ToolDenied:
    if decided.approved:
        return ToolApproved(override_args=decided.arguments)
    return ToolDenied(decided.reason) if decided.reason else ToolDenied()


def _is_input(turn: Turn, mine: tuple[str, int]) -> bool:
    return turn.role == "user" and (turn.task, turn.run) == mine


def _is_busy(error: ModelAPIError) -> bool:
    return isinstance(error, _BUSY) or (
        isinstance(error, ModelHTTPError) and is_busy(error.status_code)
    )


def _with_state(deps: Any, ctx: RunContext) -> Any:  # noqa: ANN401  # whatever the agent depends on
    """Return the dependencies with the client's shared state, if they have a ``state``."""
    if isinstance(deps, type) or not is_dataclass(deps):
        return deps
    held = getattr(deps, "state", None)
    if held is None or all(each.name != "state" for each in fields(deps)):
        return deps
    state = type(held).model_validate(ctx.state) if isinstance(held, BaseModel) else ctx.state
    taking: Any = deps
    return replace(taking, state=state)


class _ClientTools(ExternalToolset[Any]):
    """The tools of an AG-UI client, except those whose names the agent uses itself."""

    def __init__(self, wrapped: PydanticAgent[Any, Any], tools: list[ToolDefinition]) -> None:
        super().__init__(tools)
        self._wrapped = wrapped

    async def get_tools(self, ctx: Any) -> Any:  # noqa: ANN401  # the library's
        own = [await toolset.get_tools(ctx) for toolset in self._wrapped.toolsets]
        taken = {name for tools in own for name in tools}
        from_client = await super().get_tools(ctx)
        return {name: tool for name, tool in from_client.items() if name not in taken}


def _frontend(ctx: RunContext, wrapped: PydanticAgent[Any, Any]) -> Any:  # noqa: ANN401  # keywords
    """Return the options of a run for its client's tools and for deferred calls."""
    # pydantic-ai refuses another output type for an agent that validates its output.
    validates = bool(getattr(wrapped, "_output_validators", None))
    output = {} if validates else {"output_type": [wrapped.output_type, DeferredToolRequests]}
    offered = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["parameters"],
        )
        for tool in client_tools(ctx)
    ]
    return {**output, "toolsets": [_ClientTools(wrapped, offered)]} if offered else output
