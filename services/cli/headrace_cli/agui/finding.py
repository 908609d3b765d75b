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
    "http.status": "a run is answered with 200",
    "http.content-type": "its media type is text/event-stream",
    "http.refusal": "what is no RunAgentInput is refused with a status, before a stream",
    "http.capabilities": "capabilities, if told, are categories that AG-UI has",
    "sse.framing": "lines end with LF alone; each frame is a data field and a blank line",
    "sse.size": "a frame has at most 10 MB",
    "sse.json": "data is a JSON object",
    "event.type": "type is one of the protocol's names, in SCREAMING_SNAKE_CASE",
    "event.fields": "every required field is there, and every field of its type",
    "event.unknown": "there is no field that the protocol does not have",
    "event.version": "the event is one that the client's protocol version has",
    "event.time": "timestamps, in milliseconds, do not go back",
    "run.first": "the first event is RUN_STARTED or RUN_ERROR",
    "run.once": "no run starts inside another",
    "run.names": "threadId and runId are those that were asked for",
    "run.version": "RUN_STARTED names the protocol version 1.0",
    "run.ends": "RUN_FINISHED or RUN_ERROR ends the stream, and nothing follows",
    "run.outcome": "an outcome says what its type needs",
    "item.once": "what begins is not open yet",
    "item.open": "what goes on or ends is open",
    "item.closed": "all that began ends before RUN_FINISHED",
    "delta.text": "a delta is not empty: 0.x clients refuse one that is",
    "tool.parent": "a call names the assistant message that makes it",
    "tool.arguments": "a call's arguments are JSON once put together",
    "tool.result": "a result is of a call that was made, once, in a message of its own",
    "message.id": "a message id names one message",
    "messages.shape": "messages are of the seven roles, each with its fields and an id of its own",
    "messages.kept": "MESSAGES_SNAPSHOT keeps the input's messages: what it omits, a client drops",
    "state.applies": "STATE_DELTA applies to the state as it is",
    "activity.applies": "ACTIVITY_DELTA applies to an activity that was shown",
    "encrypted.entity": "an encrypted value belongs to a message or a call that there is",
}
"""Every rule, in the order in which they are explained."""


def kept_if(condition: object, rule: str, why: str) -> Finding:
    """Return a finding: kept if `condition` holds, else broken for the reason `why`."""
    return Finding(rule, "kept") if condition else Finding(rule, "broken", why)


def wise_if(condition: object, rule: str, why: str) -> Finding:
    """Return as `kept_if`, for violations that clients tolerate."""
    return Finding(rule, "kept") if condition else Finding(rule, "doubtful", why)
