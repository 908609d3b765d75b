"""Check a run's events one by one."""

from collections.abc import Iterator
from typing import Any

from headrace.model import json_patch
from headrace.model.events import Json
from headrace_cli.agui.conversation import Conversation
from headrace_cli.agui.events import DEPRECATED, FIELDS, MODERN
from headrace_cli.agui.finding import Finding, recommended, required
from headrace_cli.agui.items import Items
from headrace_cli.agui.lifecycle import Lifecycle


class Patches:
    """Keeps state and activities, and checks that each patch applies."""

    def __init__(self, state: Any) -> None:  # noqa: ANN401  # any JSON
        """Start with the state of the run's input."""
        self._state = state
        self._activities: dict[str, Any] = {}

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        match event.get("type"):
            case "STATE_SNAPSHOT":
                self._state = event.get("snapshot")
            case "STATE_DELTA":
                self._state, finding = _applied("state.applies", self._state, event.get("delta"))
                yield finding
            case "ACTIVITY_SNAPSHOT":
                self._activities[str(event.get("messageId"))] = event.get("content")
            case "ACTIVITY_DELTA":
                name = str(event.get("messageId"))
                shown = self._activities.get(name)
                content, finding = _applied("activity.applies", shown, event.get("patch"))
                self._activities[name] = content
                yield finding
            case "MESSAGES_SNAPSHOT":
                self._take(event.get("messages"))

    def _take(self, messages: object) -> None:
        for message in messages if isinstance(messages, list) else []:
            if isinstance(message, dict) and message.get("role") == "activity":
                self._activities[str(message.get("id"))] = message.get("content")


def _applied(rule: str, document: Any, patch: object) -> tuple[Any, Finding]:  # noqa: ANN401  # any JSON
    try:
        return json_patch.apply(document, patch), required(rule, rule, "")
    except json_patch.PatchFailed as failure:
        return document, required(None, rule, str(failure))


class Shape:
    """Checks that each event has the fields that the protocol defines."""

    def __init__(self, *, modern: bool) -> None:
        """Check for a client of 1.0 if `modern`, else of 0.x."""
        self._modern = modern
        self._newest = 0.0

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        kind = event.get("type")
        fields = FIELDS.get(kind) if isinstance(kind, str) else None
        yield required(fields is not None, "event.type", f"{kind!r} is not an AG-UI event")
        if fields is None or not isinstance(kind, str):
            return
        wrong = [
            name
            for name, field in fields.items()
            if (name in event or field.is_required) and not _fits(event, name)
        ]
        yield required(
            not wrong, "event.fields", f"missing or of the wrong type: {', '.join(wrong)}"
        )
        unknown = sorted(event.keys() - fields.keys() - {"type"})
        yield recommended(not unknown, "event.unknown", f"unknown: {', '.join(unknown)}")
        yield self._version(kind)
        if "timestamp" in event and not isinstance(event["timestamp"], str | None):
            yield self._time(float(event["timestamp"]))

    def _version(self, kind: str) -> Finding:
        if self._modern:
            return recommended(
                kind not in DEPRECATED, "event.version", f"{kind} was removed in 1.0"
            )
        return required(kind not in MODERN, "event.version", f"{kind} was added in 1.0")

    def _time(self, time: float) -> Finding:
        before, self._newest = self._newest, max(self._newest, time)
        return recommended(time >= before, "event.time", f"{time:.0f} after {before:.0f}")


def _fits(event: Json, name: str) -> bool:
    value, field = event.get(name), FIELDS[event["type"]][name]
    if name not in event or (value is None and field.kind != "any"):
        return not field.is_required
    return field.fits(value)


class Checker:
    """Finds for each event of a run which rules it keeps and which it breaks."""

    def __init__(self, run_input: Json) -> None:
        """Check the run that the RunAgentInput `run_input` starts."""
        self._lifecycle = Lifecycle(run_input)
        self._rules = (
            Shape(modern=run_input.get("protocolVersion") is not None),
            self._lifecycle,
            Items(),
            Conversation(run_input["messages"]),
            Patches(run_input.get("state")),
        )

    def take(self, event: Json) -> list[Finding]:
        """Check the next event."""
        return [finding for rules in self._rules for finding in rules.check(event)]

    def end(self) -> list[Finding]:
        """Check the stream's end."""
        return list(self._lifecycle.end())
