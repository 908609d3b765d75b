"""A request for a response or for a chat completion, as far as it concerns the fleet.

What only a model would need, such as ``temperature``, is kept for the agent. Fields that OpenAI
adds are ignored, so clients of any age work.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import orjson

from headrace.model import json_text
from headrace.model.events import AGUI, Json
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.subjects import LONGEST_CONTEXT
from headrace_gateway.protocols.openai.conversation import Conversation, of_items, of_messages
from headrace_gateway.protocols.openai.errors import RequestInvalid, ResponseUnknown
from headrace_gateway.protocols.openai.fields import flag_in, object_in, objects_in, text_in
from headrace_gateway.protocols.openai.ids import RunPlace

OPTIONS = "openai"
"""Key of the request's options in ``forwardedProps``."""

CHAT = "openaiChat"
"""Key of a hash of the client's messages in ``forwardedProps``, where it names no conversation."""

_OPTIONS = (
    "background",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "temperature",
    "text",
    "tool_choice",
    "top_p",
    "truncation",
    "user",
    "verbosity",
)
"""Fields that are kept for the agent, and returned in the response."""

_NO_PARAMETERS: Json = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What a client asks of an agent."""

    agent: str
    conversation: Conversation
    context: str | None
    """The conversation that the request names."""
    previous: RunPlace | None
    """The response that it continues."""
    tools: list[Json]
    """The client's functions, as AG-UI tools."""
    options: Json
    """The fields of `_OPTIONS`."""
    stream: bool
    background: bool = False
    """Whether the answer to a request without a stream comes before the agent's."""
    said_in: str = "input"
    """The field that has the conversation."""
    is_chat: bool = False
    """Whether the client has the conversation, and names it nowhere."""
    with_usage: bool = False
    """Whether a stream of chunks ends with the usage."""

    @classmethod
    def of_response(cls, body: Json) -> Self:
        """Read the body of ``POST /v1/responses``.

        Raises:
            RequestInvalid: a field is invalid.
            ResponseUnknown: no response can have the previous one's id.
        """
        _check_depth(body)
        previous = _previous(body)
        context = _conversation(body)
        if context and previous:
            rule = "can't be used with conversation"
            raise RequestInvalid("previous_response_id", rule)
        return cls(
            agent=_model(body),
            conversation=of_items(body),
            context=context,
            previous=previous,
            tools=_tools(body),
            options=_options(body),
            stream=flag_in(body, "stream"),
            background=flag_in(body, "background"),
        )

    @classmethod
    def of_completion(cls, body: Json, chat: str | None) -> Self:
        """Read the body of ``POST /v1/chat/completions``; `chat` is the id of the client's chat.

        Raises:
            RequestInvalid: a field is invalid.
        """
        _check_depth(body)
        if body.get("n") not in (None, 1):
            raise RequestInvalid("n", "must be 1: an agent answers once")
        context = _conversation(body) or _context("X-OpenWebUI-Chat-Id", chat)
        return cls(
            agent=_model(body),
            conversation=of_messages(body),
            context=context,
            said_in="messages",
            is_chat=context is None,
            previous=None,
            tools=_tools(body),
            options=_options(body),
            stream=flag_in(body, "stream"),
            with_usage=flag_in(object_in(body, "stream_options"), "include_usage"),
        )

    def metadata(self, messages: list[Json]) -> Json:
        """Return the input's metadata: what AG-UI clients send, with these messages."""
        instructions = self.options.get("instructions")
        context = [{"description": "Instructions", "value": instructions}] if instructions else []
        sent: Json = {
            "messages": messages,
            "tools": self.tools,
            "context": context,
            "state": {},
            "forwardedProps": {OPTIONS: self.options},
        }
        if self.is_chat:
            sent["forwardedProps"][CHAT] = self.conversation.digest()
        return {AGUI: sent}

    def context_metadata(self) -> Json:
        """Return the same for a conversation that is in the fleet's logs.

        System messages can't be among the log's, so they are the run's context.
        """
        metadata = self.metadata([])
        del metadata[AGUI]["messages"]
        said = (one for one in self.conversation.messages if one["role"] in {"system", "developer"})
        metadata[AGUI]["context"] += [
            {"description": "Instructions", "value": one["content"]} for one in said
        ]
        return metadata

    def fingerprint(self) -> str:
        """Return a hash of the request, independent of its formatting."""
        said = [self.agent, self.conversation.messages, self.conversation.approvals, self.options]
        whole = json_text.encode([*said, self.context, self.tools], option=orjson.OPT_SORT_KEYS)
        return sha256(whole).hexdigest()


def _check_depth(body: Json) -> None:
    for name, value in body.items():
        if isinstance(value, dict | list) and is_too_deep(value):
            raise RequestInvalid(name[:100], RULE)


def _model(body: Json) -> str:
    found = text_in(body, "model")
    if not found:
        raise RequestInvalid("model", "must name an agent")
    return found


def _options(body: Json) -> Json:
    options = {name: body[name] for name in _OPTIONS if body.get(name) is not None}
    text_in(options, "instructions", default="")
    object_in(options, "metadata")
    return options


def _previous(body: Json) -> RunPlace | None:
    given = text_in(body, "previous_response_id", default="")
    if not given:
        return None
    if (place := RunPlace.of_response(given)) is None:
        raise ResponseUnknown(given)
    return place


def _conversation(body: Json) -> str | None:
    """Return the id in ``conversation``: a string, or an object with it."""
    value = body.get("conversation")
    holder, name, path = body, "conversation", ""
    if isinstance(value, dict):
        holder, name, path = value, "id", "conversation."
    return _context(f"{path}{name}", text_in(holder, name, path, ""))


def _context(param: str, given: str | None) -> str | None:
    if given and len(given) > LONGEST_CONTEXT:
        raise RequestInvalid(param, f"must have at most {LONGEST_CONTEXT} characters")
    return given or None


def _tools(body: Json) -> list[Json]:
    """Return the functions among the tools. Others are OpenAI's own: an agent has its own."""
    found: list[Json] = []
    for at, tool in enumerate(objects_in(body, "tools")):
        if tool.get("type") != "function":
            continue
        path = f"tools[{at}]."
        if "function" in tool:  # as in chat completions
            tool, path = object_in(tool, "function", path), f"{path}function."  # noqa: PLW2901
        found.append(
            {
                "name": text_in(tool, "name", path),
                "description": text_in(tool, "description", path, ""),
                "parameters": object_in(tool, "parameters", path) or _NO_PARAMETERS,
            }
        )
    return found
