"""Rules about items with a start and an end: messages, calls, reasoning, steps, subagents."""

from collections.abc import Iterator

from headrace.model.events import Json
from headrace_cli.agui.finding import Finding, recommended, required

_STARTS = {
    "TEXT_MESSAGE_START": ("text message", "messageId"),
    "TOOL_CALL_START": ("tool call", "toolCallId"),
    "REASONING_START": ("reasoning", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning message", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
    "THINKING_START": ("thinking", ""),
    "THINKING_TEXT_MESSAGE_START": ("thinking message", ""),
}
_GOES_ON = {
    "TEXT_MESSAGE_CONTENT": ("text message", "messageId"),
    "TOOL_CALL_ARGS": ("tool call", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning message", "messageId"),
    "THINKING_TEXT_MESSAGE_CONTENT": ("thinking message", ""),
}
_ENDS = {
    "TEXT_MESSAGE_END": ("text message", "messageId"),
    "TOOL_CALL_END": ("tool call", "toolCallId"),
    "REASONING_END": ("reasoning", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning message", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
    "THINKING_END": ("thinking", ""),
    "THINKING_TEXT_MESSAGE_END": ("thinking message", ""),
}
_CHUNKS = {
    "TEXT_MESSAGE_CHUNK": "messageId",
    "TOOL_CALL_CHUNK": "toolCallId",
    "REASONING_MESSAGE_CHUNK": "messageId",
}

type _Key = tuple[str, str, str]


class Items:
    """Checks that each item is opened once, is open while it continues, and is closed in time."""

    def __init__(self) -> None:
        """Start without open items."""
        self._open: set[_Key] = set()
        self._chunk = ""

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        kind = str(event.get("type"))
        if kind in _STARTS:
            key = _key(_STARTS[kind], event)
            yield required(key not in self._open, "item.once", f"{_named(key)} is already open")
            self._open.add(key)
        elif kind in _GOES_ON or kind in _ENDS:
            key = _key((_GOES_ON | _ENDS)[kind], event)
            yield required(key in self._open, "item.open", f"{_named(key)} is not open")
            if kind in _ENDS:
                self._open.discard(key)
        elif kind == "RUN_FINISHED":
            still = ", ".join(sorted(_named(key) for key in self._open))
            yield required(not self._open, "item.closed", f"still open: {still}")
        yield from self._chunks(kind, event)
        if kind.endswith(("_CONTENT", "_ARGS")):
            yield recommended(event.get("delta"), "delta.text", "the delta is empty")

    def _chunks(self, kind: str, event: Json) -> Iterator[Finding]:
        if kind not in _CHUNKS:
            self._chunk = ""
            return
        names_itself = bool(event.get(_CHUNKS[kind]))
        goes_on = names_itself or self._chunk == kind
        yield required(goes_on, "item.open", f"the first chunk needs {_CHUNKS[kind]}")
        self._chunk = kind


def _key(item: tuple[str, str], event: Json) -> _Key:
    """Return the open item's key; steps are per subagent, so two of them may share a name."""
    kind, field = item
    whose = f"of {event['subagentRunId']}" if kind == "step" and event.get("subagentRunId") else ""
    return kind, str(event.get(field, "")), whose


def _named(key: _Key) -> str:
    return " ".join(filter(None, key))
