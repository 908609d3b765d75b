"""Adapter for agents of the OpenAI Agents SDK."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from agents import Agent as SdkAgent
from agents import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    Runner,
)
from openai import APIError

from headrace.adapters.as_json import as_json
from headrace.adapters.call_ids import CallIds
from headrace.adapters.client_tools import client_tools
from headrace.adapters.conversation.memory import Memory, check_memory, conversation
from headrace.adapters.conversation.turns import (
    Turn,
    answered,
    open_calls,
    other_parts,
    without_restated,
)
from headrace.adapters.declaration import Declaration, declare_capabilities, declare_card
from headrace.adapters.openai.content import TAKES, without_image_urls
from headrace.adapters.openai.run import refusal_of
from headrace.adapters.openai_agents.events import AgentsEvents
from headrace.adapters.openai_agents.input import (
    FORMAT,
    agent_of,
    items_of,
    response_items,
    returned,
)
from headrace.adapters.openai_agents.replay import (
    Replay,
    handoff_names,
    pending_tools,
    reachable,
    replaying,
)
from headrace.adapters.openai_agents.unique_calls import UniqueCalls
from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.approvals import (
    Decision,
    ask,
    ask_again,
    call_of,
    decisions_of,
    interrupts_before,
    question,
)
from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Data, Ending, Outcome, Reject
from headrace.sdk.errors import Retryable


def openai_agents_agent(  # noqa: PLR0913  # the adapter's options
    wrapped: SdkAgent[Any],
    *,
    name: str,
    context: Any | Callable[[RunContext], Any] = None,  # noqa: ANN401  # whatever the agent takes
    run_config: RunConfig | None = None,
    max_turns: int = 16,
    memory: Memory = "context",
    show_thinking: bool = True,
    approve_within: float | None = None,
    image_urls: bool = False,
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs an agent of the OpenAI Agents SDK.

    The conversation is read from the log, so no session is needed. A new task starts with
    `wrapped`; a follow-up starts with the agent that the task was handed over to. The tools of an
    AG-UI client are offered to the agent that starts. Tools that need approval end the run with one
    interrupt for each call. Output that is not text becomes a data artifact.

    Args:
        wrapped: The SDK's agent.
        name: The agent's name in the fleet.
        context: The context for tools, or a function that makes it from the run's context. By
            default, the run's context itself.
        run_config: The SDK's `RunConfig`; by default, nothing is traced.
        max_turns: Maximum number of turns in a run.
        memory: How much of the conversation the agent gets.
        show_thinking: Whether to emit reasoning.
        approve_within: Seconds after which an open approval counts as refused; None for no limit.
        image_urls: Whether models get the URLs of images that users link, and so fetch them from
            where their endpoints run.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: As for `agent`.
    """
    check_memory(memory, name)
    config = run_config if run_config is not None else RunConfig(tracing_disabled=True)
    options = _AgentsOptions(config, max_turns, memory, show_thinking, approve_within, image_urls)
    declare_card(declared, Card(input_modes=TAKES))
    declared.setdefault("description", f"The agent {wrapped.name}.")
    declare_capabilities(
        declared,
        client_tools=True,
        structured=wrapped.output_type not in {None, str},
        approvals=any(getattr(tool, "needs_approval", False) for tool in wrapped.tools),
        handoffs=bool(wrapped.handoffs),
    )

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        given = context(ctx) if callable(context) else context
        await _run(ctx, wrapped, options, ctx if given is None else given)

    return run


@dataclass(frozen=True, slots=True)
class _AgentsOptions:
    """Options of `openai_agents_agent`."""

    config: RunConfig
    max_turns: int
    memory: Memory
    show_thinking: bool
    approve_within: float | None
    image_urls: bool

    def shown(self, content: Sequence[Json]) -> Sequence[Json]:
        """Return the A2A Parts of a user's message as models get them."""
        return content if self.image_urls else without_image_urls(content)


async def _run(
    ctx: RunContext,
    wrapped: SdkAgent[Any],
    options: _AgentsOptions,
    given: Any,  # noqa: ANN401  # whatever the agent takes
) -> None:
    """Execute one run; its tools get `given` as context."""
    turns = without_restated(await conversation(ctx, options.memory, FORMAT))
    for turn in turns:
        turn.parts = options.shown(turn.parts)
    try:
        start = await _begin(ctx, wrapped, turns, options)
    except AnswerInvalid as error:
        await ask_again(ctx, error)
        return
    if start is None:
        return
    used = {call.id for turn in turns for call in turn.calls}
    known = start.replay.results if start.replay else {}
    calls = UniqueCalls(CallIds(ctx, used))
    config, start.agent = calls.config(options.config), calls.agent(start.agent)
    emitter = AgentsEvents(ctx, wrapped.name, known, thinking=options.show_thinking)
    starting, from_client = await _prepared(ctx, start, given, config)
    if start.replay is not None and config.model is not None:
        # The configuration's model goes before the agent's, which replays.
        config = replace(config, model=starting.model)
    result = Runner.run_streamed(
        starting,
        start.items,
        context=given,
        max_turns=options.max_turns + (start.replay is not None),
        hooks=emitter,
        run_config=config,
    )
    try:
        async for event in result.stream_events():
            await emitter.relay(event)
    except (APIError, AgentsException) as error:
        emitter.model_calls.close(error)
        ctx.log.warning("the agent %s: %s", wrapped.name, error)
        await ctx.emit(_ending(error))
        return
    finally:
        result.cancel()
        emitter.model_calls.close()
    await emitter.end(suspended=bool(result.interruptions))
    if result.interruptions and not emitter.refusal:
        await _interrupt(ctx, result.interruptions, emitter, from_client, options.approve_within)
    else:
        await _emit_output(ctx, emitter, result.final_output)


async def _emit_output(
    ctx: RunContext,
    emitter: AgentsEvents,
    output: Any,  # noqa: ANN401  # whatever the agent's `output_type` is
) -> None:
    """Emit what the events of a run do not contain of its end."""
    if emitter.refusal:
        await ctx.emit(Reject(emitter.refusal))
    elif not isinstance(output, str | None):
        await ctx.emit(Data(as_json(output), "output"))
    elif output and emitter.calls:
        # The agent's `tool_use_behavior` makes a tool's result the answer.
        await ctx.emit(output)


def _ending(error: APIError | AgentsException) -> Ending:
    """Return how a run ends that was stopped by `error`.

    Raises:
        Retryable: The endpoint is busy or unreachable, or the model's answer is unusable.
        AgentsException: The error is the agent's own.
    """
    match error:
        case APIError():
            return Outcome.because(refusal_of(error))
        case ModelBehaviorError():
            raise Retryable("the model's answer could not be used") from error
        case MaxTurnsExceeded():
            return Outcome.because("the agent reached its limit of turns")
        case ModelRefusalError():
            return Reject(error.refusal)
        case InputGuardrailTripwireTriggered() | OutputGuardrailTripwireTriggered():
            return Reject("A guardrail of the agent blocked the run.")
    raise error


@dataclass(slots=True)
class _AgentsStart:
    """Where a run starts."""

    agent: SdkAgent[Any]
    items: list[Any]
    replay: Replay | None = None
    """The response to replay first; None if the model is called first."""


@dataclass(slots=True)
class _Last:
    """The last response of a conversation, and the results after it."""

    turn: Turn
    before: list[Turn]
    results: dict[str, Any] = field(default_factory=dict)

    def replay(
        self, agent: SdkAgent[Any], decisions: dict[str, Decision], message: Sequence[Json] = ()
    ) -> _AgentsStart:
        """Return a start that replays this response."""
        extra = items_of([Turn("user", parts=message)]) if message else []
        items, calls = response_items(self.turn), self.turn.calls
        replay = Replay(items, calls, self.results, decisions, extra)
        return _AgentsStart(agent, items_of(answered(self.before)), replay)


async def _begin(
    ctx: RunContext, wrapped: SdkAgent[Any], turns: Sequence[Turn], options: _AgentsOptions
) -> _AgentsStart | None:
    """Return where the run starts; None if it only has to be ended.

    Raises:
        AnswerInvalid: The user's answer matches none of the requested schemas.
    """
    last = _last(turns)
    if last is None or last.turn.task != ctx.task:
        return _AgentsStart(wrapped, items_of(answered(turns)))
    agent, left = reachable(wrapped, agent_of(last.turn)), open_calls(turns)
    if last.turn.run == ctx.run:
        is_answer = last.turn.is_complete and not last.turn.calls
        if is_answer and agent.output_type in {None, str}:
            return None
        hands_over = any(call.name in handoff_names(agent) for call in last.turn.calls)
        may_be_over = agent.tool_use_behavior != "run_llm_again"
        if left or hands_over or is_answer or may_be_over:
            return last.replay(agent, {})
    elif left:
        return await _answer(ctx, agent, last, turns, options)
    return _AgentsStart(agent, items_of(answered(turns)))


async def _answer(
    ctx: RunContext,
    agent: SdkAgent[Any],
    last: _Last,
    turns: Sequence[Turn],
    options: _AgentsOptions,
) -> _AgentsStart | None:
    """Resume open calls of an earlier run with the user's answers."""
    interrupts = await interrupts_before(ctx)
    named = {call_of(interrupt) for interrupt in interrupts}
    left = open_calls(turns)
    waiting = [call for call in left if call.id in named]
    if not waiting:
        return _AgentsStart(agent, items_of(answered(turns)))
    message = [part for part in ctx.parts if parts.tool_result(part) is None]
    if not message:
        await ask_again(ctx)
        return None
    decided = decisions_of(message, interrupts)
    unasked = Decision(approved=False, reason="There was no answer.")
    return last.replay(
        agent,
        {call.id: decided.get(call.id, unasked) for call in left},
        options.shown(other_parts(message)),
    )


def _last(turns: Sequence[Turn]) -> _Last | None:
    for index in range(len(turns) - 1, -1, -1):
        if turns[index].role == "assistant":
            behind = [(turn, turn.result) for turn in turns[index + 1 :]]
            results = {
                result.id: returned(turn, result) for turn, result in behind if result is not None
            }
            return _Last(turns[index], list(turns[:index]), results)
    return None


async def _prepared(
    ctx: RunContext,
    start: _AgentsStart,
    given: Any,  # noqa: ANN401  # whatever the agent takes
    config: RunConfig,
) -> tuple[SdkAgent[Any], set[str]]:
    """Return the agent that starts, and the names of the client's tools that it was given."""
    sent = client_tools(ctx)
    if start.replay is None and not sent:
        return start.agent, set()
    own = await start.agent.get_all_tools(RunContextWrapper(given))
    taken = {tool.name for tool in own} | handoff_names(start.agent)
    from_client = pending_tools([tool for tool in sent if tool["name"] not in taken])
    names = {tool.name for tool in from_client}
    if start.replay is not None:
        return replaying(start.agent, [*own, *from_client], start.replay, config), names
    return start.agent.clone(tools=[*start.agent.tools, *from_client]), names


async def _interrupt(
    ctx: RunContext,
    interruptions: Sequence[Any],
    emitter: AgentsEvents,
    from_client: set[str],
    within: float | None,
) -> None:
    """End the run with the calls that wait for the user or for the client's tools."""
    calls = [emitter.calls.get(getattr(each.raw_item, "call_id", "")) for each in interruptions]
    known = [call for call in calls if call is not None]
    if len(known) < len(calls):
        reason = (
            "a tool of an agent used as a tool needs approval, which is not supported; use a "
            "handoff to that agent"
        )
        await ctx.emit(Outcome.because(reason))
        return
    tools = [tool for each in interruptions for tool in each.agent.tools]
    schemas = {tool.name: getattr(tool, "params_json_schema", None) for tool in tools}
    interrupts = [
        question(call, within=within, arguments=schemas.get(call.name))
        for call in known
        if call.name not in from_client
    ]
    await ask(ctx, interrupts, [call.id for call in known if call.name in from_client])
