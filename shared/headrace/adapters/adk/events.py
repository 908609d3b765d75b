"""The events of an ADK agent, emitted to a task's log while the agent runs.

ADK has one event for all results of a round. A plugin therefore saves each result as soon as it is
available, and answers calls whose results are already in the log.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode, Workflow
from google.genai import types

from headrace.adapters.active_agent import ActiveAgent
from headrace.adapters.adk.arguments import ArgumentsText
from headrace.adapters.adk.questions import CONFIRMATION, FRAMEWORKS
from headrace.adapters.adk.session import (
    FORMAT,
    as_kept,
    as_response,
    other_events,
    result_and_error,
)
from headrace.adapters.adk.session_service import OwnerState
from headrace.adapters.as_json import as_json
from headrace.adapters.client_tools import client_tools
from headrace.adapters.conversation.memory import keep_response
from headrace.adapters.conversation.turns import Verbatim
from headrace.adapters.questions.approvals import Decision
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Data, File, Text, Thinking, ToolArguments, ToolCall, ToolResult
from headrace.sdk.signals import State, Usage

_TEMPORARY = "temp:"


class ClientTool(BaseTool):
    """A tool of an AG-UI client: a call ends the run instead of being executed."""

    def __init__(self, tool: Json) -> None:
        """Offer `tool`, one of `client_tools`."""
        super().__init__(name=tool["name"], description=tool["description"], is_long_running=True)
        self._parameters = tool["parameters"]

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._parameters,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> None:
        """Do nothing: the client executes the call."""
        del args, tool_context


class AdkEvents(BasePlugin):
    """Plugin that emits the events of one run."""

    def __init__(
        self,
        ctx: RunContext,
        root: BaseNode,
        session: str,
        *,
        thinking: bool,
        has_plugins: bool,
    ) -> None:
        """Emit events in the run of `ctx`.

        Args:
            ctx: The run's context.
            root: The agent or workflow that runs.
            session: Id of the ADK session; events of other sessions are ignored.
            thinking: Whether to emit reasoning too.
            has_plugins: Whether other plugins may change a tool's result.
        """
        super().__init__("headrace")
        self._ctx, self._root, self._session = ctx, root, session
        self._thinking, self._has_plugins = thinking, has_plugins
        self.client_tools = [ClientTool(tool) for tool in client_tools(ctx)]
        self.decisions: Mapping[str, Decision] = {}
        """Decisions on calls that waited for approval, by call id."""
        self.results: dict[str, Json] = {}
        """Results in the log, by call id."""
        self.schemas: dict[str, Json] = {}
        """JSON Schemas of the tools that models were told of, by name."""
        self.calls: set[str] = set()
        """Ids of the calls of this task's agents."""
        self.used: set[str] = set()
        """Ids of all calls of the conversation."""
        self.state: Json = {}
        """The session's state as last emitted."""
        self.shared: OwnerState
        """What of it the owner's conversations share."""
        self.extra: types.Content | None = None
        """What the user said in addition to an answer."""
        self.model_error: Exception | None = None
        self.events: list[Event] = []
        """The task's events, in order."""
        self.active_agent = ActiveAgent(ctx, root.name)
        self._agents = {each.name: each for each in _tree(root)}
        self._turns: dict[str, int] = {}
        self._streams: set[str] = set()
        self._held: list[Event] = []
        self._streaming: dict[tuple[str, str], str] = {}
        """Ids of the streaming calls, by agent and the model's own id."""
        self._arguments: dict[str, ArgumentsText] = {}
        """Arguments of the streaming calls, by call id."""

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Offer the client's tools, except those whose names the agent uses itself."""
        if callback_context.session.id != self._session:
            return
        known, contents = llm_request.tools_dict, llm_request.contents
        llm_request.append_tools([each for each in self.client_tools if each.name not in known])
        self.schemas.update(_schemas_in(llm_request.config.tools or ()))
        if self.extra is not None and all(c.parts != self.extra.parts for c in contents):
            # ADK leaves out content between a call and its response.
            contents.append(self.extra)

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Give each call a unique id: some models restart their numbering in each response."""
        if callback_context.session.id != self._session:
            return
        content = llm_response.content
        for part in (content.parts if content else None) or ():
            if (call := part.function_call) is None or not call.id:
                continue
            # A streaming call keeps the id of its first piece.
            whose = callback_context.agent_name, call.id
            if not llm_response.partial:
                call.id = self._streaming.pop(whose, None) or self._own(call.id)
            elif _streams(call):
                call.id = self._streaming.get(whose) or self._own(call.id)
                self._streaming[whose] = call.id

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Record that the model failed, not a tool."""
        del callback_context, llm_request
        self.model_error = error

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Return a result that is already in the log, or apply the decision on the call."""
        del tool
        call = self._call(tool_context)
        if call in self.results:
            return self.results[call]
        decision = self.decisions.get(call)
        if decision is None:
            return None
        if not decision.approved:
            return {"error": decision.reason} if decision.reason else None
        if decision.arguments is not None:
            tool_args.clear()
            tool_args.update(decision.arguments)
        return None

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: dict[str, Any],
    ) -> None:
        """Save a tool's result, so that no later attempt calls the tool again."""
        del tool_args
        call = self._call(tool_context)
        if call not in self.calls or call in self.results or tool.is_long_running:
            return
        if self._may_change(tool_context) or _holds_media(result):
            # The event with all results of the round contains the final result.
            return
        await self._emit_state(tool_context.actions.state_delta)
        await self._keep_result(call, as_response(as_json(result)), None)

    async def relay(self, event: Event) -> None:
        """Emit `event`."""
        if event.author == "user":
            await self._relay_user(event)
            return
        if event.partial:
            await self._relay_partial(event)
            return
        await self._emit_state(event.actions.state_delta)
        self.events.append(event)
        if self._held and not _asks_for_approval(event):
            await self.keep(*self._held)
            self._held = []
        if event.get_function_responses():
            await self._relay_results(event)
        elif _is_from_model(event):
            await self._relay_response(event)
        elif _asks_for_approval(event):
            await self._keep_question(event)
        elif event.content or self._is_progress(event):
            await self.keep(event)

    async def keep(self, *events: Event) -> None:
        """Save events for later attempts and for later runs of the task."""
        await runtime_of(self._ctx).output.checkpoint(await self._as_kept(*events))

    async def end(self) -> None:
        """Save what is not saved yet."""
        if self._held:
            await self.keep(*self._held)

    def _own(self, theirs: str) -> str:
        """Return the call's id in the log, where ids are unique."""
        own = theirs if theirs not in self.used else f"adk-{self._ctx.new_id('call')}"
        self.used.add(own)
        return own

    def _call(self, tool_context: ToolContext) -> str:
        """Return the id of the call; empty if an agent that is used as a tool makes it."""
        is_own = tool_context.session.id == self._session
        return (tool_context.function_call_id or "") if is_own else ""

    def _may_change(self, tool_context: ToolContext) -> bool:
        """Return whether the result may still change, or is not a plain result."""
        agent = self._agents.get(tool_context.agent_name)
        actions = tool_context.actions.model_dump(
            exclude={"state_delta", "artifact_delta"}, exclude_none=True
        )
        may_change = not isinstance(agent, LlmAgent) or agent.canonical_after_tool_callbacks
        return self._has_plugins or bool(may_change) or any(actions.values())

    async def relay_first(self, events: Sequence[Event]) -> None:
        """Save what the user said in addition to the message that starts the run."""
        self.events += events
        for event in events:
            await self._keep_results_of(event)
        await self.keep(*events)

    async def _relay_user(self, event: Event) -> None:
        """Save responses to calls; other messages of the user are in the log already."""
        self.events.append(event)
        await self._keep_results_of(event)
        if event.get_function_responses():
            await self.keep(event)

    async def _keep_results_of(self, event: Event) -> None:
        for each in event.get_function_responses():
            if each.id in self.calls and each.id not in self.results:
                # The result of a long-running tool, given by the user.
                await self._keep_result(each.id, each.response or {}, None)

    async def _relay_partial(self, event: Event) -> None:
        await self.active_agent.switch_to(event.author)
        stream = event.branch or ""
        self._streams.add(stream)
        for part in (event.content.parts if event.content else None) or ():
            await self._words(event, part)
            if (call := part.function_call) is not None and _streams(call):
                await self._relay_arguments(call)

    async def _relay_arguments(self, call: types.FunctionCall) -> None:
        """Emit a piece of a call's arguments; pieces before the tool's name wait for the end."""
        if not call.id or not (call.name or call.id in self._arguments):
            return
        begins = call.id not in self._arguments
        text = self._arguments.setdefault(call.id, ArgumentsText())
        arguments = "".join(map(text.add, call.partial_args or ()))
        if begins or arguments:
            await self._ctx.emit(ToolArguments(call.id, arguments, call.name or ""))

    async def _relay_response(self, event: Event) -> None:
        """Save a response, so that no later attempt requests it again."""
        await self.active_agent.switch_to(event.author)
        stream = event.branch or ""
        content = (event.content.parts if event.content else None) or ()
        for part in content:
            if stream not in self._streams:
                await self._words(event, part)
            await self._piece(part)
        self._streams.discard(stream)
        await self._end_words(event)
        await self._usage(event)
        if self._is_structured(event) and event.is_final_response():
            await self._emit_structure(event)
        kept = as_kept([event], self._ctx.run, self.results)
        await keep_response(self._ctx, Verbatim(FORMAT, kept))

    async def _words(self, event: Event, part: types.Part) -> None:
        if not part.text:
            return
        if part.thought:
            if self._thinking:
                await self._ctx.emit(Thinking(part.text, self._block(event)))
        elif not self._is_structured(event):
            await self._ctx.emit(Text(part.text, self._block(event)))

    def _block(self, event: Event) -> str:
        """Return the label of the text block; empty if no other agent writes in parallel."""
        if not event.branch:
            return ""
        return f"{event.branch}.{self._turns.setdefault(event.branch, 0)}"

    async def _end_words(self, event: Event) -> None:
        if event.branch in self._turns:
            label = self._block(event)
            await self._ctx.emit(Thinking("", label, end=True))
            await self._ctx.emit(Text("", label, end=True))
            self._turns[event.branch] += 1

    async def _piece(self, part: types.Part) -> None:
        if (call := part.function_call) is not None and call.id:
            self.calls.add(call.id)
            self.used.add(call.id)
            name, arguments = call.name or "", as_json(call.args or {})
            if (text := self._arguments.pop(call.id, None)) is None:
                await self._ctx.emit(ToolCall(name, arguments, call.id))
            else:
                rest = text.rest(arguments)
                await self._ctx.emit(ToolArguments(call.id, rest, name, end=True))
        elif (blob := part.inline_data) is not None and blob.data:
            file = File(blob.display_name or "", blob.data, blob.mime_type or "")
            await self._ctx.emit(file)
        elif (code := part.executable_code) is not None and code.code:
            await self._ctx.emit(Text(code.code, self._ctx.new_id("code"), end=True, type="code"))

    async def _usage(self, event: Event) -> None:
        if (used := event.usage_metadata) is None:
            return
        thought = used.thoughts_token_count or 0
        usage = Usage(
            event.model_version or "",
            "",
            used.prompt_token_count or 0,
            (used.candidates_token_count or 0) + thought,
            reasoning_tokens=thought,
            cached_input_tokens=used.cached_content_token_count or 0,
        )
        await self._ctx.emit(usage)

    async def _relay_results(self, event: Event) -> None:
        """Save the results that are not saved yet, and the event that contains them."""
        waiting = {*event.actions.requested_tool_confirmations}
        waiting |= {*event.actions.requested_auth_configs}
        left = [
            each
            for each in event.get_function_responses()
            if each.id in self.calls
            and each.id not in self.results
            and each.id not in waiting
            and not self._runs_on(each.id)
        ]
        for each in left:
            self.results[each.id or ""] = as_json(each.response or {})
        for each in left[:-1]:
            await self._emit_result(each.id or "", None)
        if _asks_for_approval(event):
            for each in left[-1:]:
                await self._emit_result(each.id or "", None)
            await self._keep_question(event)
        elif left:
            await self._emit_result(left[-1].id or "", await self._as_kept(event))
        else:
            await self.keep(event)

    async def _keep_question(self, event: Event) -> None:
        """Save the two events of an approval request together, in either order."""
        self._held.append(event)
        if len(self._held) > 1:
            await self.keep(*self._held)
            self._held = []

    def _runs_on(self, call: str | None) -> bool:
        """Return whether the call's long-running tool has only reported progress so far."""
        return any(call in (event.long_running_tool_ids or ()) for event in self.events)

    async def _keep_result(self, call: str | None, response: Json, kept: Json | None) -> None:
        self.results[call or ""] = response
        await self._emit_result(call or "", kept)

    async def _emit_result(self, call: str, kept: Json | None) -> None:
        content, error = result_and_error(self.results[call])
        await runtime_of(self._ctx).output.checkpoint(kept, ToolResult(call, content, error))

    async def _as_kept(self, *events: Event) -> Json:
        kept = as_kept(events, self._ctx.run, self.results)
        return await other_events(self._ctx, kept)

    def _is_progress(self, event: Event) -> bool:
        """Return whether the event reports the progress of an agent that runs others."""
        return not isinstance(self._root, LlmAgent) and not event.error_code

    async def _emit_state(self, delta: Mapping[str, Any]) -> None:
        """Emit the state that is shared with the user interface, if it changes."""
        if not delta:
            return
        changed = {
            key: as_json(value) for key, value in delta.items() if not key.startswith(_TEMPORARY)
        }
        now = {**self.state, **changed}
        if now != self.state:
            self.state = now
            await self.shared.update(changed)
            await self._ctx.emit(State(now))

    def _is_structured(self, event: Event) -> bool:
        agent = self._agents.get(event.author)
        return isinstance(agent, LlmAgent) and agent.output_schema is not None

    async def _emit_structure(self, event: Event) -> None:
        text = _text(event.content.parts if event.content else None)
        try:
            await self._ctx.emit(Data(json_text.decode_foreign(text), "output"))
        except orjson.JSONDecodeError:
            await self._ctx.emit(Text(text))


def _schemas_in(tools: Iterable[Any]) -> Iterator[tuple[str, Json]]:
    """Yield the names of tools, and the schemas of their arguments."""
    for tool in tools:
        for declared in getattr(tool, "function_declarations", None) or ():
            if declared.name and isinstance(declared.parameters_json_schema, dict):
                yield declared.name, declared.parameters_json_schema


def _tree(node: BaseNode) -> Iterator[BaseAgent]:
    """Yield the agents of a tree: an agent and its sub-agents, or a workflow's nodes."""
    if isinstance(node, BaseAgent):
        yield node
        for agent in node.sub_agents:
            yield from _tree(agent)
    elif isinstance(node, Workflow) and node.graph is not None:
        for inner in node.graph.nodes:
            yield from _tree(inner)


def _holds_media(result: object) -> bool:
    """Return whether a tool returned files, which ADK removes from the result."""
    among: Iterable[object] = (result,)
    if isinstance(result, dict):
        among = result.values()
    elif isinstance(result, list | tuple):
        among = result
    return any(isinstance(each, types.Part | types.FunctionResponse) for each in among)


def _is_from_model(event: Event) -> bool:
    """Return whether the event is a model's response, not a request of ADK itself."""
    if event.content is None or event.content.role == "user":
        return False
    calls: Collection[str | None] = [call.name for call in event.get_function_calls()]
    return not any(name in FRAMEWORKS for name in calls)


def _asks_for_approval(event: Event) -> bool:
    """Return whether the event is one of the two with which ADK requests an approval."""
    names = [call.name for call in event.get_function_calls()]
    return CONFIRMATION in names or bool(event.actions.requested_tool_confirmations)


def _text(content: Sequence[types.Part] | None) -> str:
    return "".join(part.text for part in content or () if part.text and not part.thought)


def _streams(call: types.FunctionCall) -> bool:
    """Return whether this is a piece of a call, not a complete one."""
    return bool(call.partial_args) or call.will_continue is not None
