"""Requests as Hector's documents have them: shorter than A2A's own, and with older names."""

from headrace.model.events import Json
from headrace_gateway.tasks.ids import mint_message_id

_USER = "ROLE_USER"
_ROLES = {
    "user": _USER,
    # Whoever sends a message is the asked agent's user, an assistant too.
    "assistant": _USER,
    "ROLE_ASSISTANT": _USER,
    "agent": "ROLE_AGENT",
}

_NAMES = {
    "content": "parts",
    "message_id": "messageId",
    "context_id": "contextId",
    "task_id": "taskId",
}
"""What the older name of a field stands for, unless that is there itself."""


def completed(params: Json) -> Json:
    """Return SendMessage's parameters with what Hector's clients leave out, or name otherwise.

    The message may stand under ``request`` and its parts under ``content``; without an id it gets
    one, without a role it is the user's. Whatever else is wrong with it stays, for A2A's own rules
    to refuse.
    """
    message = params.get("message", params.get("request"))
    if not isinstance(message, dict):
        return params
    named = {_NAMES.get(name, name): value for name, value in message.items()} | message
    given = {name: value for name, value in named.items() if name not in _NAMES}
    whole = {"messageId": mint_message_id(), **given, "role": _role(message.get("role"))}
    rest = {key: value for key, value in params.items() if key != "request"}
    return {**rest, "message": whole}


def _role(stated: object) -> object:
    if stated is None:
        return _USER
    return _ROLES.get(stated, stated) if isinstance(stated, str) else stated
