"""The mixture that fasta2a's client sends and expects: 0.3's methods and words, 1.0's shapes.

Its messages have parts without 0.3's ``kind``, which no client of 0.3 leaves out. Answers to those
have 1.0's wrapper and parts, with 0.3's words for states and roles.
"""

from headrace.model.events import Json
from headrace_gateway.protocols.a2a_v03 import requests, responses

_STATE = "TASK_STATE_"
_ROLE = "ROLE_"


def is_unkinded(method: str, params: Json) -> bool:
    """Return whether a call's message has parts, and none with a ``kind``."""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if requests.METHODS.get(method) not in requests.SENDS or not isinstance(parts, list):
        return False
    return bool(parts) and all(isinstance(part, dict) and "kind" not in part for part in parts)


def answer(operation: str, result: Json) -> Json:
    """Return an operation's 1.0 result as the client expects it."""
    if operation in requests.SENDS:
        return event(result)
    found: Json = responses.rpc_answer(operation, result)
    return found


def event(wrapped: Json) -> Json:
    """Return a 1.0 StreamResponse with 0.3's words."""
    return {name: _spoken(name, content) for name, content in wrapped.items()}


def _spoken(name: str, content: Json) -> Json:
    if name == "message":
        return _message(content)
    found = dict(content)
    if "status" in found:
        status = dict(found["status"])
        status["state"] = status["state"].removeprefix(_STATE).lower().replace("_", "-")
        if "message" in status:
            status["message"] = _message(status["message"])
        found["status"] = status
    if "history" in found:
        found["history"] = list(map(_message, found["history"]))
    return found


def _message(message: Json) -> Json:
    return {**message, "role": message["role"].removeprefix(_ROLE).lower()}
