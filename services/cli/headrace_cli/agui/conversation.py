"""Rules about a client's state: messages and their tool calls, as the events build them."""

import json
from collections.abc import Iterator

from headrace.model.events import Json
from headrace_cli.agui.finding import Finding, recommended, required

_ROLES: dict[str, tuple[str, ...]] = {
    "developer": ("content",),
    "system": ("content",),
    "user": ("content",),
    "assistant": (),
    "tool": ("content", "toolCallId"),
    "activity": ("activityType", "content"),
    "reasoning": ("content",),
}
"""Each role, with the fields that its messages need in addition to ``id``."""

_DEFAULT_ROLES = {"TEXT_MESSAGE_START": "assistant", "REASONING_MESSAGE_START": "reasoning"}


class Conversation:
    """Checks messages, tool calls and their results against each other."""

    def __init__(self, messages: list[Json]) -> None:
        """Start with the messages of the run's input."""
        self._given = [str(message.get("id")) for message in messages]
        self._roles: dict[str, str] = {}
        self._calls: dict[str, list[str]] = {}
        self._answered: set[str] = set()
        self._take(messages)

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        match event.get("type"):
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" as kind:
                role = event.get("role") or _DEFAULT_ROLES[kind]
                yield self._named(event, role)
            case "TOOL_CALL_START":
                yield from self._call(event)
            case "TOOL_CALL_ARGS":
                self._calls.setdefault(_text(event, "toolCallId"), []).append(_text(event, "delta"))
            case "TOOL_CALL_END":
                yield self._arguments(_text(event, "toolCallId"))
            case "TOOL_CALL_RESULT":
                yield from self._result(event)
            case "MESSAGES_SNAPSHOT":
                yield from self._snapshot(event.get("messages"))
            case "ACTIVITY_SNAPSHOT":
                yield self._named(event, "activity")
            case "REASONING_ENCRYPTED_VALUE":
                entity = _text(event, "entityId")
                is_there = entity in self._roles or entity in self._calls
                yield required(is_there, "encrypted.entity", f"unknown id {entity}")

    def _named(self, event: Json, role: str) -> Finding:
        message = _text(event, "messageId")
        held = self._roles.setdefault(message, role)
        return required(held == role, "message.id", f"{message} is a {held} message")

    def _call(self, event: Json) -> Iterator[Finding]:
        call, parent = _text(event, "toolCallId"), event.get("parentMessageId")
        self._calls[call] = []
        why = f"call {call} names none, so clients create a message for it"
        if parent:
            role = self._roles.setdefault(str(parent), "assistant")
            why = f"{parent} is a {role} message"
            parent = role == "assistant"
        yield recommended(parent, "tool.parent", why)

    def _arguments(self, call: str) -> Finding:
        try:
            json.loads("".join(self._calls.get(call, [])) or "{}")
        except ValueError as error:
            return required(None, "tool.arguments", f"call {call}: {error}")
        return required(call, "tool.arguments", "")

    def _result(self, event: Json) -> Iterator[Finding]:
        call, message = _text(event, "toolCallId"), _text(event, "messageId")
        yield recommended(call in self._calls, "tool.result", f"unknown call {call}")
        yield required(
            call not in self._answered, "tool.result", f"call {call} already has a result"
        )
        yield required(message not in self._roles, "message.id", f"id {message} is in use")
        self._answered.add(call)
        self._roles.setdefault(message, "tool")

    def _snapshot(self, messages: object) -> Iterator[Finding]:
        items = messages if isinstance(messages, list) else []
        wrong = [str(at) for at, message in enumerate(items) if not _is_message(message)]
        names = [message["id"] for message in items if _is_message(message)]
        if len(set(names)) != len(names):
            wrong.append("duplicate id")
        yield required(not wrong, "messages.shape", f"wrong: {', '.join(wrong)}")
        missing = [name for name in self._given if name not in names]
        yield recommended(not missing, "messages.kept", f"missing: {', '.join(missing)}")
        self._become([message for message in items if _is_message(message)])

    def _become(self, messages: list[Json]) -> None:
        """Replace the messages; keep what clients keep as well: activities and reasoning."""
        kept = {"activity", "reasoning"}
        self._roles = {name: role for name, role in self._roles.items() if role in kept}
        self._calls.clear()
        self._answered.clear()
        self._take(messages)

    def _take(self, messages: list[Json]) -> None:
        for message in messages:
            self._roles[str(message.get("id"))] = str(message.get("role"))
            if message.get("role") == "tool":
                self._answered.add(_text(message, "toolCallId"))
            for call in message.get("toolCalls") or []:
                self._calls.setdefault(str(call.get("id")), [])


def _is_message(message: object) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("id"), str):
        return False
    needs = _ROLES.get(str(message.get("role")))
    return needs is not None and all(name in message for name in needs)


def _text(event: Json, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
