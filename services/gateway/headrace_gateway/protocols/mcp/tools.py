"""Agents as tools: their descriptions, and the message that a call's arguments become."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from headrace.directory import AgentCard
from headrace.model.events import Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace_gateway.call import Call
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.tasks.ids import mint_message_id
from headrace_gateway.tasks.submission import Submission
from headrace_gateway.tasks.terms import check_parts, refused_part, terms

_TEXT: Json = {"type": "string"}

_INPUT: Json = {
    "message": {**_TEXT, "description": "What to tell the agent, in plain words."},
    "context": {
        **_TEXT,
        "description": "Continues a conversation: the contextId of an earlier result.",
    },
    "task": {
        **_TEXT,
        "description": "Answers the question of a task whose state is input_required: its taskId.",
    },
}
_FILES: Json = {
    "type": "array",
    "description": "Files for the agent.",
    "items": {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "mimeType": _TEXT,
            "data": {**_TEXT, "description": "The content, in base64."},
            "uri": {**_TEXT, "description": "The address, in place of the content."},
        },
    },
}
_OUTPUT: Json = {
    "type": "object",
    "properties": {
        "taskId": _TEXT,
        "contextId": _TEXT,
        "state": {
            **_TEXT,
            "enum": ["completed", "failed", "rejected", "canceled", "input_required"],
        },
        "text": _TEXT,
        "data": {"type": "array", "items": {}},
        "files": {
            "type": "array",
            "items": {"type": "object", "properties": {"uri": _TEXT, "name": _TEXT}},
        },
    },
    "required": ["taskId", "contextId", "state", "text"],
}


def tool_of(card: AgentCard, *, is_modern: bool) -> Json:
    """Return the tool that stands for an agent."""
    properties = _INPUT if _takes_only_text(card) else {**_INPUT, "files": _FILES}
    tool: Json = {
        "name": card.name,
        "title": card.title,
        "description": _description(card),
        "inputSchema": {"type": "object", "properties": properties, "required": ["message"]},
        "outputSchema": _OUTPUT,
    }
    if card.icon_url:
        tool["icons"] = [{"src": card.icon_url}]
    return tool if is_modern else {**tool, "execution": {"taskSupport": "optional"}}


def is_tool(card: AgentCard) -> bool:
    """Return whether a call can reach the agent: with a text, and without A2A's extensions."""
    is_reached = refused_part([{"text": ""}], card) is None
    return is_reached and not any(one.get("required") for one in card.extensions)


def submission_of(call: Call, arguments: object) -> Submission:
    """Return the message that a call of the agent's tool submits.

    Raises:
        Malformed: an argument is invalid.
        ContentTypeNotSupportedError: the agent does not accept a file.
    """
    given = arguments if isinstance(arguments, dict) else {}
    _check_names(given, {*_INPUT, "files"}, "arguments")
    texts = {name: _text(given, name) for name in _INPUT}
    if texts["message"] is None:
        raise Malformed([Violation("arguments.message", "is required")])
    files = given.get("files") or []
    if not isinstance(files, list):
        raise Malformed([Violation("arguments.files", "must be a list")])
    parts = [_file(at, one) for at, one in enumerate(files)]
    if texts["message"] or not parts:
        parts.insert(0, {"text": texts["message"]})
    return submission(call, parts, task=texts["task"], context=texts["context"])


def submission(
    call: Call,
    parts: list[Json],
    *,
    task: str | None,
    context: str | None = None,
    if_generation: int | None = None,
) -> Submission:
    """Return a message of `parts` that begins a task or continues one.

    Raises:
        ContentTypeNotSupportedError: the agent does not accept a part.
    """
    message = {"messageId": mint_message_id(), "role": "ROLE_USER", "parts": parts}
    check_parts(message, call.card)
    metadata = call.marks | terms(call.caller, call.card, {}, "arguments.").metadata()
    return Submission(
        call.caller, call.agent, message, context, metadata, task, if_generation=if_generation
    )


def _takes_only_text(card: AgentCard) -> bool:
    return bool(card.accepted_types) and card.accepted_types <= {"text/plain"}


def _description(card: AgentCard) -> str:
    skills = [
        f"- {one['name']}: {one.get('description', '')}" for one in card.skills if "name" in one
    ]
    return "\n".join([card.description or card.title, *skills])


def _file(at: int, given: object) -> Json:
    where = f"arguments.files.{at}"
    if not isinstance(given, dict):
        raise Malformed([Violation(where, "must be an object")])
    _check_names(given, {"name", "mimeType", "data", "uri"}, where)
    found = {name: _text(given, name, where) for name in ("name", "mimeType", "data", "uri")}
    if (found["data"] is None) == (found["uri"] is None):
        raise Malformed([Violation(where, "must have either data or uri")])
    if is_link(found["uri"]):
        raise Malformed([Violation(f"{where}.uri", LINKS_ARE_OURS)])
    _check_base64(found["data"], where)
    names = {"filename": "name", "mediaType": "mimeType", "raw": "data", "url": "uri"}
    return {key: found[name] for key, name in names.items() if found[name] is not None}


def _check_base64(data: str | None, where: str) -> None:
    try:
        base64.b64decode(data or "", validate=True)
    except (binascii.Error, ValueError):
        raise Malformed([Violation(f"{where}.data", "must be base64")]) from None


def _text(given: Mapping[str, Any], name: str, where: str = "arguments") -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed([Violation(f"{where}.{name}", "must be a string")])
    return value


def _check_names(given: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(given.keys() - known):
        rule = f"is not known; known are {', '.join(sorted(known))}"
        raise Malformed([Violation(f"{where}.{unknown[0]}", rule)])
