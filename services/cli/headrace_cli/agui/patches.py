"""Rules about patches: a client that can't apply one is left behind."""

from collections.abc import Iterator
from typing import Any

from headrace.model import json_patch
from headrace_cli.agui.finding import Finding, kept_if
from headrace_cli.client import Json


class Patches:
    """Keeps state and activities, and checks that each patch applies."""

    def __init__(self, state: Any) -> None:  # noqa: ANN401  # any JSON
        """Begin with the state of the run's input."""
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
        return json_patch.apply(document, patch), kept_if(rule, rule, "")
    except json_patch.PatchFailed as failure:
        return document, kept_if(None, rule, str(failure))
