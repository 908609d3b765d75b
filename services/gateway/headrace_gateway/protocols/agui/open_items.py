"""What is open in a stream, by the frames that a client has got of it."""

from headrace_gateway.protocols.agui.frame import Frame

_STARTS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
    "THINKING_START": ("span", ""),
    "THINKING_TEXT_MESSAGE_START": ("reasoning", ""),
}
_ENDS = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
    "THINKING_END": ("span", ""),
    "THINKING_TEXT_MESSAGE_END": ("reasoning", ""),
}

type _Key = tuple[str, str, str]


class OpenItems:
    """Remembers how each item that is open was opened."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        self._open: dict[_Key, Frame] = {}

    def take(self, frame: Frame) -> None:
        """Take note of what `frame` opens or closes."""
        kind = frame.event["type"]
        if (start := _STARTS.get(kind)) is not None:
            self._open[_key(start, frame)] = frame
        elif (end := _ENDS.get(kind)) is not None:
            self._open.pop(_key(end, frame), None)

    def openings(self) -> list[Frame]:
        """Return the frames that open it all again, in the order in which it was opened."""
        return list(self._open.values())


def _key(named: tuple[str, str], frame: Frame) -> _Key:
    """Return what is open. Ids are the run's, but two subagents may have steps of one name."""
    kind, field = named
    whose = frame.event.get("subagentRunId", "") if kind == "step" else ""
    return kind, whose, frame.event.get(field, "")
