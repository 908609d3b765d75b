"""A conversation as pydantic-ai's messages: from the log, kept in memory, or for spans."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models.instrumented import InstrumentationSettings as Instrumentation

from headrace.adapters.conversation.journal import Journal
from headrace.adapters.conversation.turns import (
    CallItem,
    Item,
    ReasoningItem,
    ResultItem,
    TextItem,
    Turn,
)
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.sdk.context import RunContext

FORMAT = "pydantic-ai"
"""Format of what is kept verbatim: a ModelResponse as JSON, or a ModelRequest with a tool's
result."""

_LINKS: dict[str, Any] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


@dataclass(slots=True)
class Past:
    """The conversation so far; the calls of its last response may be open."""

    messages: list[ModelMessage] = field(default_factory=list)
    last: ModelResponse | None = None
    """The last response; its results are only in `results`."""
    results: dict[str, ToolReturnPart] = field(default_factory=dict)
    """The last response's results, by call id."""
    extra: dict[str, UserPromptPart] = field(default_factory=dict)
    """Content for the model in addition to a result, such as images, by call id."""
    _logged: set[str] = field(default_factory=set)
    """Ids of the calls in the log; other calls are pydantic-ai's own, for structured answers."""

    def add(self, turn: Turn) -> None:
        """Add the next turn; system turns are skipped: the agent has its own instructions."""
        match turn.role:
            case "assistant":
                self.close()
                self._logged = {call.id for call in turn.calls}
                self._respond(_response(turn))
            case "tool" if turn.result is not None:
                self._answer(turn, turn.result)
            case "user":
                self.close()
                self._request([UserPromptPart(prompt_of(turn.parts))])

    def close(self) -> None:
        """Add the results after the last response, and answer its open calls."""
        if self.last is None:
            return
        for call in self.open:
            self.refuse(call)
        closing = [self.results[call.tool_call_id] for call in self.calls]
        if closing:
            self._request([*closing, *self.extra.values()])
        self.last, self.results, self.extra = None, {}, {}

    def refuse(self, call: ToolCallPart) -> None:
        """Answer a call that will get no other answer."""
        name, tool = call.tool_call_id, call.tool_name
        if name in self._logged:
            result = ToolReturnPart(tool, "There was no answer.", name, outcome="failed")
        else:
            result = ToolReturnPart(tool, "Final result processed.", name)
        self.results[name] = result

    def put_results(self) -> None:
        """Add the known results after the last response; its other calls stay open."""
        if self.results:
            self._request([*self.results.values(), *self.extra.values()])

    @property
    def calls(self) -> Sequence[ToolCallPart]:
        """The last response's calls."""
        return self.last.tool_calls if self.last is not None else ()

    @property
    def open(self) -> list[ToolCallPart]:
        """The last response's calls without an answer."""
        return [call for call in self.calls if call.tool_call_id not in self.results]

    def _respond(self, response: ModelResponse) -> None:
        if response.parts:
            self.messages.append(response)
            self.last = response

    def _answer(self, turn: Turn, result: ToolResultPart) -> None:
        names = {call.tool_call_id: call.tool_name for call in self.calls}
        if result.id not in names:
            return
        self.results[result.id] = _return(names[result.id], result)
        for part in _kept_result(turn):
            if isinstance(part, ToolReturnPart):
                self.results[result.id] = part
            elif isinstance(part, UserPromptPart):
                self.extra[result.id] = part

    def _request(self, content: Sequence[ModelRequestPart]) -> None:
        """Add to the last request: results and the user's message form one request."""
        if self.messages and isinstance(self.messages[-1], ModelRequest):
            content = [*self.messages.pop().parts, *content]
        self.messages.append(ModelRequest(content))


def prompt_of(message: Sequence[Json]) -> str | list[UserContent]:
    """Return the user's A2A Parts as a prompt: one text as a text, as pydantic-ai's users write it.

    A text in a list is another request to a model server; some templates take only a text.
    """
    match [_piece(part) for part in message]:
        case [str(text)]:
            return text
        case content:
            return content


def verbatim_of(response: ModelResponse, ids: dict[str, str]) -> Any:  # noqa: ANN401  # any JSON
    """Return the response as JSON, with its calls' `ids` in the log."""
    [kept] = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    for part in kept["parts"]:
        if part.get("tool_call_id") in ids:
            part["tool_call_id"] = ids[part["tool_call_id"]]
    return kept


def verbatim_of_result(result: ToolReturnPart, extra: Sequence[UserContent], own: str) -> Any:  # noqa: ANN401  # any JSON
    """Return, as JSON, a tool's result and the content that goes with it; `own` is its id."""
    # Metadata is for the application only, and may have any type.
    request: list[ModelRequestPart] = [replace(result, tool_call_id=own, metadata=None)]
    if extra:
        request.append(UserPromptPart(extra))
    [kept] = ModelMessagesTypeAdapter.dump_python([ModelRequest(request)], mode="json")
    return kept


def _kept_result(turn: Turn) -> Sequence[ModelRequestPart]:
    kept = _kept(turn)
    return kept.parts if isinstance(kept, ModelRequest) else ()


def _kept(turn: Turn) -> ModelMessage | None:
    """Return what was kept verbatim, unless another version of pydantic-ai wrote it."""
    if turn.verbatim is None:
        return None
    try:
        [kept] = ModelMessagesTypeAdapter.validate_python([turn.verbatim.response])
    except ValidationError:
        return None
    return kept


def _response(turn: Turn) -> ModelResponse:
    if isinstance(kept := _kept(turn), ModelResponse):
        return kept
    content = [part for item in turn.items if (part := _part(item)) is not None]
    return ModelResponse(content)


def _part(item: Item) -> Any:  # noqa: ANN401  # a ModelResponsePart
    match item:
        case TextItem():
            return TextPart(item.text) if item.text else None
        case ReasoningItem():
            return ThinkingPart(item.text) if item.text else None
        case CallItem():
            return ToolCallPart(item.name, item.text or item.arguments, item.id)
        case ResultItem():
            return TextPart(item.text)


def _return(tool: str, result: ToolResultPart) -> ToolReturnPart:
    if result.error:
        return ToolReturnPart(tool, result.error, result.id, outcome="failed")
    return ToolReturnPart(tool, result.content, result.id)


def _piece(part: Json) -> UserContent:
    media = part.get("mediaType")
    if "raw" in part:
        return BinaryContent(b64decode(part["raw"]), media_type=media or "application/octet-stream")
    if "url" in part:
        linked = _LINKS.get(str(media).partition("/")[0], DocumentUrl)
        content: UserContent = linked(part["url"], media_type=media)
        return content
    return part["text"] if "text" in part else json_text.text(part.get("data"))


_RENAMED = {"result": "response"}
_KINDS = {"thinking": "reasoning"}
"""Names of the library's that the conventions have changed since."""


def span_messages_of(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return messages as spans hold them. Files keep their kind and lose their content."""
    instrumentation = Instrumentation(include_binary_content=False)
    shown: Any = instrumentation.messages_to_otel_messages(list(messages))
    return [_shown_message(message) for message in shown]


def instructions_of(messages: Sequence[ModelMessage]) -> str:
    """Return the instructions that are sent beside the messages."""
    last = messages[-1] if messages else None
    return (last.instructions or "") if isinstance(last, ModelRequest) else ""


def _shown_message(message: Json) -> Json:
    parts = [_shown_part(part) for part in message["parts"]]
    kinds = {part["type"] for part in parts}
    named: Json = {"role": "tool"} if kinds == {"tool_call_response"} else {}
    end: Json = {"finish_reason": "stop"} if message["role"] == "assistant" else {}
    return {**end, **message, **named, "parts": parts}


def _shown_part(part: Json) -> Json:
    renamed = {_RENAMED.get(name, name): value for name, value in part.items()}
    return {**renamed, "type": _KINDS.get(part["type"], part["type"])}


class FleetHistory:
    """The messages of a conversation. Workers, reloads and restarts don't change them.

    They belong to the owner's conversation with the agent, and are erased with that. An attempt
    that takes over a run finds them as they were before the run.
    """

    def __init__(self, ctx: RunContext, name: str) -> None:
        """See `fleet_history`."""
        self._journal = Journal(ctx, ctx.memory, "pydantic-ai", name)

    async def messages(self) -> list[ModelMessage]:
        """Return the messages, for `message_history`."""
        return ModelMessagesTypeAdapter.validate_python(await self._journal.items())

    async def add(self, messages: Sequence[ModelMessage]) -> None:
        """Add a run's `new_messages()`."""
        await self._journal.add(ModelMessagesTypeAdapter.dump_python([*messages], mode="json"))

    async def clear(self) -> None:
        """Delete all messages."""
        await self._journal.clear()


def fleet_history(ctx: RunContext, name: str = "") -> FleetHistory:
    """Return the messages of the conversation.

    ``result = await agent.run(…, message_history=await history.messages())``, and then ``await
    history.add(result.new_messages())``. `pydantic_ai_agent` needs none: it reads the conversation
    from the log.

    Args:
        ctx: The run's context.
        name: A name, if the conversation has several histories, such as one for each agent.
    """
    return FleetHistory(ctx, name)
