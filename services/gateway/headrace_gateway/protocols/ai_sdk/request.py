"""Reading a chat request, as the SDK's transport sends it.

Only the end of its messages is read: the user's new message, or results and approvals for the last
answer. What was said before is in the logs, and a client can't change it.
"""

import re
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import orjson

from headrace.log_lines import cut, escaped
from headrace.model import json_text, parts
from headrace.model.events import AGUI, Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace.model.json_patch import Document, LimitExceeded
from headrace.model.nesting import RULE, is_too_deep
from headrace_gateway.json_errors import InputInvalid, check_id, json_object
from headrace_gateway.protocols.ai_sdk.fold import JSON_OUTPUT

SUBMIT, REGENERATE = "submit-message", "regenerate-message"
_ANSWERS = frozenset({"output-available", "output-error", "approval-responded"})
_EXTRAS = ("tools", "context", "state")
"""Members of the body, from the transport's `body` option, that agents read as AG-UI's."""
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]+)*;base64,(?P<data>[A-Za-z0-9+/=]*)")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a client sends to a chat."""

    chat: str
    message: Json | None
    """The user's new message, as an A2A Message; None: the client answers the agent."""
    answers: dict[str, Json]
    """UI parts with results of the client's tools and decisions on approvals, by their ids as the
    client has received them."""
    trigger: str
    regenerates: str
    """The answer that another one replaces; empty if the request names none."""
    metadata: Json
    """Metadata of the input event."""
    wishes: Json
    """Options for the gateway: ``headrace`` in the body."""

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parse a request's body.

        Raises:
            InputInvalid: it is invalid; the message names the field and the rule.
        """
        given = json_object(body)
        for name, value in given.items():
            if value and isinstance(value, dict | list) and is_too_deep(value):
                raise InputInvalid(f"{escaped(cut(name, 100))}: {RULE}")
        chat = _string(given, "id", "")
        check_id("id", chat)
        messages = given.get("messages")
        if not isinstance(messages, list) or not messages:
            raise InputInvalid("messages: must be a list with at least one message")
        trigger = str(given.get("trigger") or SUBMIT)
        if trigger not in {SUBMIT, REGENERATE}:
            raise InputInvalid(f"trigger: must be {SUBMIT} or {REGENERATE}")
        path = f"messages.{len(messages) - 1}"
        role, content = _last(messages[-1], path)
        return cls(
            chat,
            _message(messages[-1], content, path) if role == "user" else None,
            {} if role == "user" else _answers(content, path),
            trigger,
            str(given.get("messageId") or "") if trigger == REGENERATE else "",
            _metadata(given),
            _object(given, "headrace"),
        )

    def key(self) -> str:
        """Return the request's idempotency key; empty: it asks for one more answer.

        The line break keeps it distinct from clients' keys. A message that is edited has its id
        still, and other content.
        """
        if self.trigger == REGENERATE and not self.regenerates:
            return ""
        return self._key([self.chat, self.regenerates, *self._content()])

    def original_key(self) -> str:
        """Return the key of the request that sent the message first."""
        return self._key([self.chat, "", *self._content()])

    def fingerprint(self) -> str:
        """Return a hash of the content."""
        return sha256(json_text.encode(self._content(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def _content(self) -> list[Any]:
        if self.message is not None:
            return [self.message["messageId"], self.message["parts"]]
        return [sorted(self.answers), [self.answers[name] for name in sorted(self.answers)]]

    @staticmethod
    def _key(content: list[Any]) -> str:
        return f"chat\n{sha256(json_text.encode(content)).hexdigest()}"


def answer_part(part: Json, own: str) -> Json:
    """Return a UI part that answers the call or the interrupt `own` as an A2A part."""
    match part["state"]:
        case "output-available":
            output = part.get("output")
            result = parts.tool_result_part(own, json_text.as_text(output))
            # Agents expect text, and other windows what the client has sent.
            is_json = {} if isinstance(output, str) else {JSON_OUTPUT: True}
            return {**result, "metadata": {**result["metadata"], **is_json}}
        case "output-error":
            return parts.tool_result_part(own, "", str(part.get("errorText") or "failed"))
    given = part["approval"]
    reason = {"reason": given["reason"]} if isinstance(given.get("reason"), str) else {}
    metadata = {parts.INTERRUPT_ID: own, parts.RESUME_STATUS: "resolved"}
    return {"data": {"approved": given["approved"], **reason}, "metadata": metadata}


def _last(message: object, path: str) -> tuple[str, list[Json]]:
    """Return the role and the parts of the last message."""
    if not isinstance(message, dict):
        raise InputInvalid(f"{path}: must be an object")
    role = str(message.get("role"))
    if role not in {"user", "assistant"}:
        raise InputInvalid(f"{path}.role: must be user or assistant, in the last message")
    content = message.get("parts")
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InputInvalid(f"{path}.parts: must be a list of objects")
    return role, content


def _message(message: Json, content: list[Json], path: str) -> Json:
    message_id = _string(message, "id", path)
    check_id(f"{path}.id", message_id)
    found = [_part(part, f"{path}.parts.{at}") for at, part in enumerate(content)]
    return {"messageId": message_id, "role": "ROLE_USER", "parts": found or [{"text": ""}]}


def _part(part: Json, path: str) -> Json:
    """Return a part of the user's message as an A2A part."""
    kind = _string(part, "type", path)
    if kind == "text":
        return {"text": _string(part, "text", path)}
    if kind == "file":
        return _file(part, path)
    if kind == "data-answer":
        answer = _object(part, "data", path)
        metadata = {
            parts.INTERRUPT_ID: _string(answer, "id", f"{path}.data"),
            parts.RESUME_STATUS: "resolved",
        }
        return {"data": answer.get("value"), "metadata": metadata}
    if kind.startswith("data-"):
        return {"data": part.get("data")}
    raise InputInvalid(f"{path}.type: must be text, file or data-…, in a message of the user")


def _file(part: Json, path: str) -> Json:
    url, media_type = _string(part, "url", path), _string(part, "mediaType", path)
    about = {"mediaType": media_type}
    if isinstance(part.get("filename"), str):
        about["filename"] = part["filename"]
    if is_link(url):
        raise InputInvalid(f"{path}.url: {LINKS_ARE_OURS}")
    if (data := _DATA_URL.fullmatch(url)) is not None and _is_base64(data["data"]):
        return {"raw": data["data"], **about}
    if not url.startswith(("http://", "https://")):
        raise InputInvalid(f"{path}.url: must be a data URL in base64, or one of HTTP")
    return {"url": url, **about}


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _answers(content: list[Json], path: str) -> dict[str, Json]:
    found = dict[str, Json]()
    for at, part in enumerate(content):
        state = str(part.get("state"))
        if "toolCallId" not in part or state not in _ANSWERS:
            continue
        where = f"{path}.parts.{at}"
        if state == "approval-responded":
            approval = _object(part, "approval", where)
            if not isinstance(approval.get("approved"), bool):
                raise InputInvalid(f"{where}.approval.approved: must be true or false")
            found[_string(approval, "id", f"{where}.approval")] = part
        elif part.get("providerExecuted") is not True:
            found[_string(part, "toolCallId", where)] = part
    return found


def _metadata(given: Json) -> Json:
    """Return the input's metadata: what the page's own tools, context and state are."""
    sent = {name: given[name] for name in _EXTRAS if given.get(name) is not None}
    if not isinstance(tools := sent.get("tools", []), list) or not all(map(_is_tool, tools)):
        raise InputInvalid("tools: must be a list of objects with a name, as AG-UI's tools")
    if not isinstance(sent.get("context", []), list):
        raise InputInvalid("context: must be a list")
    if "state" in sent:
        try:
            Document(sent["state"]).check()
        except LimitExceeded as excess:
            raise InputInvalid(f"state: {excess}") from None
    return {AGUI: sent} if sent else {}


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _string(holder: Json, name: str, path: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise InputInvalid(f"{_join(path, name)}: must be a string")
    return value


def _object(holder: Json, name: str, path: str = "") -> Json:
    value = holder.get(name)
    if value is None and not path:
        return {}
    if not isinstance(value, dict):
        raise InputInvalid(f"{_join(path, name)}: must be an object")
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
