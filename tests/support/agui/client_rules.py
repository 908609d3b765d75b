"""Reference implementation of an AG-UI 1.0 client's checks and state, independent of the fold."""

from copy import deepcopy
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

from headrace.model import json_patch
from headrace.model.events import Json

_EVENTS: TypeAdapter[BaseModel] = TypeAdapter(Event)

_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_NEEDS = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}


class Client:
    """Takes a stream's events; asserts on what the official client refuses or warns of."""

    def __init__(self, messages: list[Json] | None = None, state: object = None) -> None:
        self.messages = deepcopy(messages or [])
        self.state: Any = {} if state is None else state
        self.ended = False
        self.open: set[tuple[str, str]] = set()
        self.seen: list[str] = []
        self.made: set[str] = set()
        """Tool calls begun in this stream."""
        self.owners: dict[str, str] = {}
        """Of every tool call, the subagent run that made it; empty: the agent itself."""
        self.subagents: set[str] = set()
        """All that were ever begun."""

    def take_all(self, events: list[Json]) -> "Client":
        for event in events:
            self.take(event)
        return self

    def take(self, event: Json) -> None:
        self._check_shape(event)
        kind = event["type"]
        assert not self.ended, f"{kind} after the end"
        assert self.seen or kind in {"RUN_STARTED", "RUN_ERROR"}, f"the first event is {kind}"
        assert kind != "RUN_STARTED" or not self.seen, "a second RUN_STARTED"
        self._check_order(event)
        self.seen.append(kind)
        self.ended = kind in {"RUN_FINISHED", "RUN_ERROR"}
        if (apply := getattr(self, f"_{kind.lower()}", None)) is not None:
            apply(event)

    @staticmethod
    def _check_shape(event: Json) -> None:
        """Check against the protocol's models: nothing wrong, nothing unknown, nothing missing."""
        parsed = _EVENTS.validate_python(event)
        assert not parsed.model_extra, parsed.model_extra
        assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == event

    def _check_order(self, event: Json) -> None:
        kind = event["type"]
        if kind in _OPENS:
            key = _key(_OPENS[kind], event)
            assert key not in self.open, f"{key} opened twice"
            self.open.add(key)
        if kind in _NEEDS or kind in _CLOSES:
            key = _key((_NEEDS | _CLOSES)[kind], event)
            assert key in self.open, f"{kind} of {key} that is not open"
        if kind in _CLOSES:
            self.open.remove(_key(_CLOSES[kind], event))
        self._check_subagent(kind, event.get("subagentRunId", ""), event)
        if kind == "RUN_FINISHED":
            assert not self.open, f"still open: {self.open}"
        if "delta" in event:
            assert event["delta"], "0.x clients refuse an empty delta"

    def _check_subagent(self, kind: str, run: str, event: Json) -> None:
        if kind == "SUBAGENT_STARTED":
            assert run not in self.subagents, "a subagent run begun twice"
            parent = event.get("parentSubagentRunId")
            assert parent is None or parent in self.subagents, "nested in nothing"
            self.subagents.add(run)
        elif run and not kind.startswith("SUBAGENT"):
            assert ("subagent", run) in self.open, f"{kind} of a subagent run that is not open"
        message = event.get("messageId")
        if kind.endswith(("_CONTENT", "_END", "_DELTA", "_VALUE")) and message:
            held = self._find(message)
            assert held is None or held.get("subagentRunId", "") == run, "somebody else's message"

    def _find(self, message: str) -> Json | None:
        return next((held for held in self.messages if held["id"] == message), None)

    def _begin(self, event: Json, role: str) -> None:
        message = event["messageId"]
        held = self._find(message)
        if held is None:
            self.messages.append({"id": message, "role": role, "content": "", **_by(event)})
        else:
            assert held["role"] == role, f"{message} is a {held['role']} message, not {role}"

    def _grow(self, event: Json) -> None:
        held = self._find(event["messageId"])
        assert held is not None
        held["content"] += event["delta"]

    def _text_message_start(self, event: Json) -> None:
        self._begin(event, event["role"])

    def _reasoning_message_start(self, event: Json) -> None:
        self._begin(event, "reasoning")

    _text_message_content = _reasoning_message_content = _grow

    def _call(self, call: str) -> tuple[Json, Json] | None:
        for message in self.messages:
            for made in message.get("toolCalls", []):
                if made["id"] == call:
                    return message, made
        return None

    def _tool_call_start(self, event: Json) -> None:
        whose = event.get("subagentRunId", "")
        owner = self.owners.setdefault(event["toolCallId"], whose)
        assert owner == whose, "somebody else's tool call"
        if self._call(event["toolCallId"]) is not None:
            # What a client holds from another stream goes on.
            assert event["toolCallId"] not in self.made, "a tool call made twice"
            return
        self.made.add(event["toolCallId"])
        parent = self._find(event["parentMessageId"])
        assert parent is not None, "a tool call without a parent"
        assert parent["role"] == "assistant"
        made = {"id": event["toolCallId"], "type": "function"}
        function = {"name": event["toolCallName"], "arguments": ""}
        parent.setdefault("toolCalls", []).append({**made, "function": function})

    def _tool_call_args(self, event: Json) -> None:
        found = self._call(event["toolCallId"])
        assert found is not None
        found[1]["function"]["arguments"] += event["delta"]

    def _tool_call_result(self, event: Json) -> None:
        assert self._find(event["messageId"]) is None, "a result's id used twice"
        result = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        result |= {"content": event["content"], **_by(event)}
        if "metadata" in event:
            result["metadata"] = event["metadata"]
        found = self._call(event["toolCallId"])
        at = len(self.messages)
        if found is not None:
            at = self.messages.index(found[0]) + 1
            while at < len(self.messages) and self.messages[at]["role"] == "tool":
                at += 1
        self.messages.insert(at, result)

    def _reasoning_encrypted_value(self, event: Json) -> None:
        found = self._call(event["entityId"])
        entity = found[1] if event["subtype"] == "tool-call" and found else None
        entity = entity or self._find(event["entityId"])
        assert entity is not None
        entity["encryptedValue"] = event["encryptedValue"]

    def _state_snapshot(self, event: Json) -> None:
        self.state = event["snapshot"]

    def _state_delta(self, event: Json) -> None:
        self.state = json_patch.apply(self.state, event["delta"])

    def _activity_snapshot(self, event: Json) -> None:
        shown = {"id": event["messageId"], "role": "activity", **_by(event)}
        shown |= {"activityType": event["activityType"], "content": event["content"]}
        held = self._find(event["messageId"])
        if held is None:
            self.messages.append(shown)
        else:
            assert held["role"] == "activity", "an activity with a message's id"
            held |= shown

    def _activity_delta(self, event: Json) -> None:
        held = self._find(event["messageId"])
        assert held is not None
        assert held["role"] == "activity"
        held["content"] = json_patch.apply(held["content"], event["patch"])

    def _messages_snapshot(self, event: Json) -> None:
        for message in event["messages"]:
            for made in message.get("toolCalls") or ():
                self.owners[made["id"]] = message.get("subagentRunId", "")
        new = {message["id"]: deepcopy(message) for message in event["messages"]}
        roles = {message["role"] for message in event["messages"]}
        keeps = set() if "reasoning" in roles else {"reasoning"}
        if "activity" not in roles or "metadata" in event:
            keeps.add("activity")
        kept = [m for m in self.messages if m["id"] in new or m["role"] in keeps]
        self.messages = [new.pop(message["id"], message) for message in kept]
        self.messages += new.values()


def _by(event: Json) -> Json:
    """Return what a message says of the subagent run that its event is of."""
    return {key: event[key] for key in ("subagentRunId",) if key in event}


def _key(named: tuple[str, str], event: Json) -> tuple[str, str]:
    """Return what is open; two subagents may have steps of one name."""
    kind, field = named
    whose = f"{event.get('subagentRunId', '')}/" if kind == "step" else ""
    return kind, f"{whose}{event[field]}"
