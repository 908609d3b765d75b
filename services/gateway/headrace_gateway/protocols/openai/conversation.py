"""The conversation in a request, as AG-UI messages, which agents read.

Its end is for the agent: the user's message, results of the client's tools, and decisions on
approvals.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile

import orjson

from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace.model.user_content import to_parts
from headrace_gateway.protocols.openai.content import content_in, text_of
from headrace_gateway.protocols.openai.errors import RequestInvalid
from headrace_gateway.protocols.openai.fields import object_in, objects_in, text_in

_TEXTS = frozenset({"system", "developer"})


@dataclass(slots=True)
class Conversation:
    """The messages of a request."""

    messages: list[Json] = field(default_factory=list)
    """AG-UI messages, oldest first."""
    approvals: list[Json] = field(default_factory=list)
    """The decisions at the end, each with its ``id``, ``approve`` and ``reason``."""

    @property
    def user(self) -> Json | None:
        """The user's message that ends the conversation; None if something else does."""
        last = self.messages[-1] if self.messages else None
        return last if last is not None and last["role"] == "user" else None

    @property
    def results(self) -> list[Json]:
        """The results of tools at the end, before the user's message if there is one."""
        end = len(self.messages) - (self.user is not None)
        start = end
        while start and self.messages[start - 1]["role"] == "tool":
            start -= 1
        return self.messages[start:end]

    @property
    def answered(self) -> list[str]:
        """The ids of the calls and approvals that the end answers, as the client has them."""
        named = [one["toolCallId"] for one in self.results]
        return named + [one["id"] for one in self.approvals]

    @property
    def has_answers(self) -> bool:
        """Whether the agent has answered before."""
        return any(message["role"] == "assistant" for message in self.messages)

    def input(self, message_id: str) -> tuple[list[Json], list[Json]]:
        """Return the parts of a new task's input, and the messages without its content."""
        if (user := self.user) is not None:
            bare = {"id": message_id, "role": "user"}
            return to_parts(user["content"]), [*self.messages[:-1], bare]
        if results := self.results:
            return [_result(one, one["toolCallId"]) for one in results], self.messages
        return [{"text": ""}], self.messages

    def digest(self, end: int | None = None) -> str:
        """Return a hash of the messages before place `end`; None: of all of them."""
        said = [{**message, "id": ""} for message in self.messages[:end]]
        return sha256(json_text.encode(said, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def question(self) -> str | None:
        """The hash of the messages that had the agent's last answer, if the user replies to it."""
        start = len(self.messages) - 1
        if self.user is None or not start or self.messages[start - 1]["role"] != "assistant":
            return None
        return self.digest(start - 1)

    @property
    def last_answer(self) -> str:
        """The agent's last text; empty if it has said nothing."""
        said = (one for one in reversed(self.messages) if one["role"] == "assistant")
        return next((str(one["content"]) for one in said), "")

    def said(self) -> list[Json]:
        """Return the parts of what the user says since the agent's last answer, at least one."""
        since = list(takewhile(lambda one: one["role"] != "assistant", reversed(self.messages)))
        found = [one["content"] for one in reversed(since) if one["role"] == "user"]
        return [part for content in found for part in to_parts(content)] or [{"text": ""}]

    def add(self, role: str, **fields: object) -> None:
        """Add a message."""
        self.messages.append({"id": f"message-{len(self.messages)}", "role": role, **fields})

    def add_call(self, call: str, name: str, arguments: str) -> None:
        """Add a call of a tool to the assistant's last message, or as a message of its own."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.add("assistant", content="")
        function = {"name": name, "arguments": arguments}
        calls = self.messages[-1].setdefault("toolCalls", [])
        calls.append({"id": call, "type": "function", "function": function})


def _result(message: Json, own: str) -> Json:
    return parts.tool_result_part(own, message["content"])


def answer_parts(conversation: Conversation, calls: dict[str, str]) -> list[Json]:
    """Return the results at the end for the agent's calls; `calls` has its ids by the client's."""
    found = ((one, calls.get(one["toolCallId"])) for one in conversation.results)
    return [_result(message, own) for message, own in found if own is not None]


def of_items(body: Json) -> Conversation:
    """Return the conversation in a Responses request: its ``input``.

    Raises:
        RequestInvalid: an item is invalid.
    """
    given, conversation = body.get("input"), Conversation()
    if isinstance(given, str):
        conversation.add("user", content=given)
        return conversation
    if not isinstance(given, list):
        raise RequestInvalid("input", "must be a string or a list of items")
    for at, item in enumerate(objects_in(body, "input")):
        _add_item(conversation, item, f"input[{at}].")
    return conversation


def _add_item(conversation: Conversation, item: Json, path: str) -> None:
    match item.get("type", "message"):
        case "message":
            _add_message(conversation, item, path)
        case "function_call" | "mcp_call" as kind:
            call = text_in(item, "call_id" if kind == "function_call" else "id", path)
            conversation.add_call(call, text_in(item, "name", path), _arguments(item, path))
            if kind == "mcp_call" and item.get("output") is not None:
                content = text_in(item, "output", path)
                conversation.add("tool", toolCallId=call, content=content)
        case "function_call_output":
            content = text_of(content_in(item, "output", path))
            call = text_in(item, "call_id", path)
            conversation.add("tool", toolCallId=call, content=content)
        case "mcp_approval_response":
            conversation.approvals.append(_approval(item, path))
        case "item_reference":
            rule = "can't be used: send the item, or previous_response_id"
            raise RequestInvalid(f"{path}type", f"item_reference {rule}")
        # Others, such as reasoning, are an agent's own notes: it has them in its log.


def _approval(item: Json, path: str) -> Json:
    approve = item.get("approve")
    if not isinstance(approve, bool):
        raise RequestInvalid(f"{path}approve", "must be true or false")
    name, reason = text_in(item, "approval_request_id", path), text_in(item, "reason", path, "")
    return {"id": name, "approve": approve, "reason": reason}


def _arguments(item: Json, path: str) -> str:
    return text_in(item, "arguments", path, "{}")


def _add_message(conversation: Conversation, message: Json, path: str) -> None:
    role, content = text_in(message, "role", path), content_in(message, "content", path)
    if role == "user":
        conversation.add("user", content=content)
    elif role == "assistant" or role in _TEXTS:
        conversation.add(role, content=text_of(content))
    else:
        raise RequestInvalid(f"{path}role", f"unknown role {role}")


def of_messages(body: Json) -> Conversation:
    """Return the conversation in a chat completion's request: its ``messages``.

    Raises:
        RequestInvalid: there are none, or one is invalid.
    """
    found, conversation = objects_in(body, "messages"), Conversation()
    if not found:
        raise RequestInvalid("messages", "must have at least one message")
    for at, message in enumerate(found):
        path = f"messages[{at}]."
        if message.get("role") == "tool":
            content = text_of(content_in(message, "content", path))
            call = text_in(message, "tool_call_id", path)
            conversation.add("tool", toolCallId=call, content=content)
            continue
        _add_message(conversation, message, path)
        for number, made in enumerate(objects_in(message, "tool_calls", path)):
            of_call = f"{path}tool_calls[{number}]."
            function = object_in(made, "function", of_call)
            name = text_in(function, "name", f"{of_call}function.")
            arguments = _arguments(function, f"{of_call}function.")
            conversation.add_call(text_in(made, "id", of_call), name, arguments)
    return conversation
