"""Adapter for agents of Google's Agent Development Kit (ADK)."""

import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Unpack

import httpx
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import RunConfig, StreamingMode  # type: ignore[attr-defined] # documented
from google.adk.apps import App, ResumabilityConfig
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.workflow import BaseNode
from google.genai import types
from google.genai.errors import UnknownApiResponseError

from headrace.adapters.adk.artifact_service import FleetArtifactService
from headrace.adapters.adk.events import AdkEvents
from headrace.adapters.adk.memory_service import FleetMemoryService
from headrace.adapters.adk.questions import (
    CREDENTIAL,
    FRAMEWORKS,
    UserDecision,
    answer_of,
    questions,
    waiting_calls,
)
from headrace.adapters.adk.session import (
    FORMAT,
    kept_events,
    past_events,
    response_of,
    user_content,
    user_event,
)
from headrace.adapters.adk.session_service import OwnerState
from headrace.adapters.busy import is_busy
from headrace.adapters.client_tools import client_tools
from headrace.adapters.conversation.memory import (
    Memory,
    RememberedConversation,
    check_memory,
    remembered,
    with_content,
)
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.adapters.conversation.turns import Turn, user_turn
from headrace.adapters.declaration import (
    ANY_MEDIA,
    Declaration,
    declare_capabilities,
    declare_card,
    with_caution,
)
from headrace.adapters.outside_context import outside_context
from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.approvals import ask, ask_again, interrupts_before
from headrace.model.agent_card import Caution
from headrace.model.events import Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Ending, Outcome, Reject
from headrace.sdk.errors import Misdeclared, Retryable

_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"}
)
"""Finish reasons with which Gemini refuses to answer."""


def adk_agent(  # noqa: PLR0913  # the adapter's options
    wrapped: BaseNode | App,
    *,
    name: str,
    run_config: RunConfig | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    memory: Memory = "context",
    show_thinking: bool = True,
    approve_within: float | None = None,
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs an agent, a workflow or an app of Google's ADK.

    ADK's own runner executes it. The session is built from the log for each run, so no session
    service is needed. Its state is shared with the user interface; that with the prefixes ``user:``
    and ``app:`` is kept in the owner's memory. The tools of an AG-UI client are offered to every
    agent. Tools that need confirmation, long-running tools and ADK's requests for input end the run
    with one interrupt for each call. The output of an agent with an `output_schema` becomes a data
    artifact.

    Args:
        wrapped: The agent, workflow or app.
        name: The agent's name in the fleet.
        run_config: ADK's `RunConfig`; by default, models stream.
        artifact_service: ADK's artifact service; by default, a `FleetArtifactService`.
        memory_service: ADK's memory service; by default, a `FleetMemoryService`.
        memory: How much of the conversation the agent gets.
        show_thinking: Whether to emit reasoning.
        approve_within: Seconds after which an open approval counts as refused; None for no limit.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: The app has no root agent, or as for `agent`.
    """
    check_memory(memory, name)
    app = wrapped if isinstance(wrapped, App) else App(name=wrapped.name, root_agent=wrapped)
    root = app.root_agent
    if root is None:
        raise Misdeclared(f"the app {app.name} has no agent at its root")
    config = run_config or RunConfig(streaming_mode=StreamingMode.SSE)
    services = _AdkServices(artifact_service, memory_service)
    options = _AdkOptions(
        app, root, config, services, memory, show_thinking, approve_within, _resumable()
    )
    declare_card(declared, Card(input_modes=ANY_MEDIA))
    declared.setdefault("description", root.description or f"The agent {root.name}.")
    declare_capabilities(declared, handoffs=bool(getattr(root, "sub_agents", ())))

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        await _AdkRun(ctx, options).run()

    for service in (artifact_service, memory_service):
        if isinstance(service, InMemoryArtifactService | InMemoryMemoryService):
            run = with_caution(run, _in_one_process(service))
    return run


def _in_one_process(service: object) -> Caution:
    text = f"{type(service).__name__} keeps what agents save in one process: it is gone on another"
    return Caution(
        text=f"{text} worker, and after a reload or a restart",
        remedy="use a service that all workers share",
    )


@dataclass(frozen=True, slots=True)
class _AdkServices:
    artifacts: BaseArtifactService | None
    memories: BaseMemoryService | None


@dataclass(frozen=True, slots=True)
class _AdkOptions:
    """Options of `adk_agent`."""

    app: App
    root: BaseNode
    config: RunConfig
    services: _AdkServices
    memory: Memory
    show_thinking: bool
    approve_within: float | None
    resumable: ResumabilityConfig


@dataclass(slots=True)
class _AdkStart:
    """Where a run starts: with a message, or after the last event of an invocation."""

    past: list[Event]
    """Events of earlier tasks."""
    own: list[Event]
    """Events of this task."""
    results: dict[str, Json]
    """Results of the task's tools, by call id."""
    message: types.Content | None = None
    invocation: str | None = None
    answer: UserDecision | None = None
    first: list[Event] = field(default_factory=list)
    """What the user said in addition to that message, not saved yet."""
    is_over: bool = False
    """Whether only the run's end is left to emit."""


class _AdkRun:
    """One run of an ADK agent."""

    def __init__(self, ctx: RunContext, options: _AdkOptions) -> None:
        self._ctx, self._options = ctx, options
        self._brought = {tool["name"] for tool in client_tools(ctx)}
        self._user = f"{ctx.tenant}.{ctx.owner}"

    async def run(self) -> None:
        """Execute the run."""
        ctx, options = self._ctx, self._options
        known = await remembered(ctx, options.memory, FORMAT)
        try:
            start = await self._begin(known)
        except AnswerInvalid as error:
            await ask_again(ctx, error)
            return
        if start is None:
            await ask_again(ctx)
            return
        session = outside_context(ctx, known.requested_by)
        emitter = self._emitter(known, start, session)
        if start.first:
            await emitter.relay_first(start.first)
        if not start.is_over:
            runner = await self._runner(emitter, start, session)
            events = runner.run_async(
                user_id=self._user,
                session_id=session,
                invocation_id=start.invocation,
                new_message=start.message,
                run_config=options.config,
                yield_user_message=True,
            )
            if not await self._drive(emitter, events):
                return
        await self._end(emitter)

    def _emitter(self, known: RememberedConversation, start: _AdkStart, session: str) -> AdkEvents:
        """Return what emits the events of `session`."""
        ctx, options = self._ctx, self._options
        has_plugins = bool(options.app.plugins)
        emitter = AdkEvents(
            ctx, options.root, session, thinking=options.show_thinking, has_plugins=has_plugins
        )
        emitter.state = _state(ctx, known)
        emitter.shared = OwnerState(ctx, options.app.name, self._user)
        emitter.results = start.results
        emitter.used = {call.id for turn in known.turns for call in turn.calls}
        emitter.calls = _calls(start.own)
        emitter.events = start.own
        if start.answer is not None:
            emitter.decisions = start.answer.decisions
            if start.answer.extra:
                emitter.extra = user_content(start.answer.extra)
        return emitter

    async def _runner(self, emitter: AdkEvents, start: _AdkStart, session: str) -> Runner:
        """Return ADK's runner, with the events so far in `session`."""
        options, sessions = self._options, InMemorySessionService()
        emitter.state |= await emitter.shared.get()
        made = await sessions.create_session(
            app_name=options.app.name, user_id=self._user, session_id=session, state=emitter.state
        )
        for event in (*start.past, *start.own):
            await sessions.append_event(made, event)
        update = {
            "plugins": [emitter, *options.app.plugins],
            "resumability_config": options.resumable,
        }
        return Runner(
            app=options.app.model_copy(update=update),
            session_service=sessions,
            artifact_service=options.services.artifacts or FleetArtifactService(self._ctx),
            memory_service=options.services.memories or FleetMemoryService(self._ctx),
        )

    async def _drive(self, emitter: AdkEvents, events: AsyncGenerator[Event, None]) -> bool:
        """Emit what the agent does; return whether the run still has to be ended."""
        ending: Ending | None = None
        try:
            async with aclosing(events):
                async for event in events:
                    await emitter.relay(event)
                    # The runner raises an error after the event that reports it.
                    ending = _ending_of(event) or ending
        except Exception as error:  # noqa: BLE001  # `_ending` re-raises the agent's own errors
            ending = _ending(error, emitter.model_error)
            self._ctx.log.warning("the agent %s: %s", self._options.root.name, error)
        if ending is not None:
            await self._ctx.emit(ending)
        else:
            await emitter.end()
        return ending is None

    async def _end(self, emitter: AdkEvents) -> None:
        """End the run, with interrupts for the calls that wait for the user, if any."""
        waiting = waiting_calls(emitter.events)
        await emitter.active_agent.end(suspended=bool(waiting))
        if any(each.name == CREDENTIAL for each in waiting):
            await self._ctx.emit(
                Outcome.because("a tool requests credentials, which this adapter does not support")
            )
        elif waiting:
            within = self._options.approve_within
            interrupts, pending = questions(waiting, self._brought, within, emitter.schemas)
            await ask(self._ctx, interrupts, pending)

    async def _begin(self, known: RememberedConversation) -> _AdkStart | None:
        """Return where the run starts; None if the interrupts must be repeated.

        Raises:
            AnswerInvalid: The user's answer matches none of the requested schemas.
            Retryable: The conversation can't be read.
        """
        ctx = self._ctx
        own_turns = turns_of_log(known.log, ctx.task) or user_turn(ctx.message, ctx.task, ctx.run)
        inputs = await _inputs(ctx, own_turns)
        results = _results(own_turns)
        kept = await kept_events(ctx, known.log, results)
        own = _own_events(ctx, inputs, kept)
        past = past_events(_past(ctx, known.turns, own_turns), self._options.root.name)
        message = inputs.get(ctx.run, [])
        start = _AdkStart(past, own, results)
        if waiting := waiting_calls(own):
            interrupts = await interrupts_before(ctx)
            start.answer = answer_of(message, waiting, interrupts, results)
            if start.answer is None:
                return None
        mine = [event for run, event in kept if run == ctx.run]
        if start.answer is not None and not _answers(mine, start.answer.content):
            start.own += mine
            start.message = start.answer.content
            if not mine:
                start.first = _first(start.answer, own[-1].invocation_id, _invocation(ctx, ctx.run))
        elif mine:
            self._go_on(start, mine, message)
        else:
            start.message = user_content(message)
        return start

    def _go_on(self, start: _AdkStart, mine: list[Event], message: Sequence[Json]) -> None:
        """Continue after the events that an earlier attempt saved for this run."""
        if start.answer is None:
            start.own.append(user_event(message, mine[0].invocation_id))
        start.own += mine
        start.invocation = mine[-1].invocation_id
        start.is_over = bool(waiting_calls(start.own))
        root, last = self._options.root, mine[-1]
        is_answer = bool(last.content) and last.is_final_response()
        if start.is_over or not is_answer or last.author == "user":
            return
        # This was the agent's final answer; ADK would call its model again.
        start.is_over = isinstance(root, LlmAgent)
        update = {"id": Event.new_id(), "content": None}
        ends = last.model_copy(update={**update, "actions": EventActions(end_of_agent=True)})
        start.own.append(ends)


async def _inputs(ctx: RunContext, own: Sequence[Turn]) -> dict[int, list[Json]]:
    """Return the parts that the task's user sent, by run, without tool results."""
    inputs = dict[int, list[Json]]()
    for turn in own:
        if turn.role == "user":
            inputs.setdefault(turn.run, []).extend(await with_content(ctx, turn.parts))
    return inputs


def _answers(events: Sequence[Event], content: types.Content) -> bool:
    """Return whether one of the user's events contains `content`, responses to calls."""
    wanted = {part.function_response.id for part in content.parts or () if part.function_response}
    given = (
        {response.id for response in event.get_function_responses()}
        for event in events
        if event.author == "user"
    )
    return any(wanted <= each for each in given)


def _first(answer: UserDecision, asking: str, invocation: str) -> list[Event]:
    """Return what the user said in addition to the answer's content.

    Results belong to the invocation that is `asking` for them and continues.
    """
    events = list[Event]()
    if answer.results is not None:
        events.append(Event(author="user", invocation_id=asking, content=answer.results))
    if answer.extra:
        events.append(user_event(answer.extra, invocation))
    return events


def _past(ctx: RunContext, turns: Sequence[Turn], own: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns before the task's first."""
    mine = {turn.id for turn in own if turn.role == "user"}
    # An AG-UI client sends the run's input without content, under its own id. Other clients use ids
    # again, so that those of earlier tasks tell nothing.
    mine |= {m.get("id") for m in ctx.agui.get("messages") or () if m.get("content") is None}
    first = (
        index
        for index, turn in enumerate(turns)
        if turn.task == ctx.task or (not turn.task and turn.role == "user" and turn.id in mine)
    )
    return turns[: next(first, len(turns))]


def _own_events(
    ctx: RunContext, inputs: dict[int, list[Json]], kept: Sequence[tuple[int, Event]]
) -> list[Event]:
    """Return the events of the task's earlier runs."""
    events = list[Event]()
    answering = {run for run, event in kept if event.author == "user"}
    for run in sorted({*inputs, *(run for run, _ in kept)} - {ctx.run}):
        made = [event for number, event in kept if number == run]
        # A message that was no valid answer is not part of the conversation.
        is_message = bool(made) or not waiting_calls(events)
        if run in inputs and run not in answering and is_message:
            invocation = made[0].invocation_id if made else _invocation(ctx, run)
            events.append(user_event(inputs[run], invocation))
        events += made
    return events


def _invocation(ctx: RunContext, run: int) -> str:
    return f"{ctx.task}-{run}"


def _results(own: Sequence[Turn]) -> dict[str, Json]:
    """Return the results of the task's tools, by call id."""
    return {turn.result.id: response_of(turn.result) for turn in own if turn.result is not None}


def _calls(events: Sequence[Event]) -> set[str]:
    """Return the ids of the tool calls."""
    calls = [call for event in events for call in event.get_function_calls()]
    return {call.id for call in calls if call.id and call.name not in FRAMEWORKS}


def _state(ctx: RunContext, known: RememberedConversation) -> Json:
    """Return the session's state: the client's if it sent one, else the conversation's."""
    state = ctx.state if ctx.agui.get("state") is not None else known.state()
    return dict(state) if isinstance(state, dict) else {}


def _ending_of(event: Event) -> Ending | None:
    """Return how the run ends if a model gave no answer; None if it continues."""
    code = event.error_code
    if event.partial or not code or (event.content and event.content.parts):
        return None
    reason = str(getattr(code, "value", code)).rpartition(".")[2]
    if reason in _REFUSALS:
        return Reject(f"The model did not answer: {event.error_message or reason}")
    return Outcome.because(f"the model gave no answer: {event.error_message or reason}")


def _ending(error: Exception, model_error: Exception | None) -> Ending:
    """Return how a run ends that was stopped by `error`.

    Raises:
        Retryable: The model's endpoint is busy or unreachable.
        Exception: `error` itself, if the agent raised it.
    """
    if isinstance(error, LlmCallsLimitExceededError):
        return Outcome.because("the agent reached its limit of model calls")
    if model_error is None or model_error not in {error, error.__cause__, error.__context__}:
        raise error
    status = getattr(model_error, "code", None) or getattr(model_error, "status_code", None)
    if isinstance(status, int):
        if is_busy(status):
            raise Retryable(f"the model's endpoint is busy: {status}") from error
        return Outcome.because(f"the model's endpoint refused the request: {status}")
    if isinstance(model_error, httpx.HTTPError | OSError | UnknownApiResponseError):
        raise Retryable("the model's endpoint is unreachable or closed the connection") from error
    raise error


def _resumable() -> ResumabilityConfig:
    """Return a config with which invocations resume; ADK warns that it is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ResumabilityConfig(is_resumable=True)
