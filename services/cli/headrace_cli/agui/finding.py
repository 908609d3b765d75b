"""The result of checking a rule."""

from typing import Literal, NamedTuple

type Level = Literal["kept", "doubtful", "broken"]


class Finding(NamedTuple):
    """One rule, checked once."""

    rule: str
    """Its name in `RULES`."""
    level: Level
    why: str = ""
    """Why the rule is broken; empty if it is kept."""


RULES = {
    "http.status": "a run is answered with status 200",
    "http.content-type": "its media type is text/event-stream",
    "http.refusal": "an invalid RunAgentInput is refused with a status, without a stream",
    "http.capabilities": "capabilities, if served, use AG-UI's categories",
    "sse.framing": "lines end with LF alone; each frame is a data field and a blank line",
    "sse.size": "a frame has at most 10 MB",
    "sse.json": "data is a JSON object",
    "event.type": "type is one of the protocol's names, in SCREAMING_SNAKE_CASE",
    "event.fields": "every required field is present, and every field has its type",
    "event.unknown": "there are no unknown fields",
    "event.version": "the event exists in the client's protocol version",
    "event.time": "timestamps, in milliseconds, do not go back",
    "run.first": "the first event is RUN_STARTED or RUN_ERROR",
    "run.once": "no run starts inside another",
    "run.names": "threadId and runId are those of the request",
    "run.version": "RUN_STARTED names the protocol version 1.0",
    "run.ends": "RUN_FINISHED or RUN_ERROR ends the stream, and nothing follows",
    "run.outcome": "an outcome has the fields of its type",
    "item.once": "an item that starts is not open yet",
    "item.open": "an item that continues or ends is open",
    "item.closed": "every started item ends before RUN_FINISHED",
    "delta.text": "a delta is not empty; 0.x clients reject empty ones",
    "tool.parent": "a call names the assistant message that makes it",
    "tool.arguments": "a call's concatenated arguments are JSON",
    "tool.result": "a result has its own message id and belongs to a call without a result",
    "message.id": "a message id names one message",
    "messages.shape": "each message has one of the seven roles, that role's fields and a unique id",
    "messages.kept": "MESSAGES_SNAPSHOT includes the input's messages; clients drop others",
    "state.applies": "STATE_DELTA applies to the current state",
    "activity.applies": "ACTIVITY_DELTA applies to a known activity",
    "encrypted.entity": "an encrypted value belongs to an existing message or call",
}
"""Every rule, in the order in which they are explained."""


def required(condition: object, rule: str, why: str) -> Finding:
    """Return a finding: kept if `condition` holds, else broken for the reason `why`."""
    return Finding(rule, "kept") if condition else Finding(rule, "broken", why)


def recommended(condition: object, rule: str, why: str) -> Finding:
    """Return as `required`, for violations that clients tolerate."""
    return Finding(rule, "kept") if condition else Finding(rule, "doubtful", why)
