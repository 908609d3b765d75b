"""Requests as the dialect's documents have them: shorter than A2A's own."""

from uuid import uuid4

from headrace.events import Json

_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}


def completed(params: Json) -> Json:
    """Return SendMessage's parameters with what the dialect's clients leave out.

    The message may stand under ``request``; without an id it gets one, without a role it is the
    user's. Whatever else is wrong with it stays, for A2A's own rules to refuse.
    """
    message = params.get("message", params.get("request"))
    if not isinstance(message, dict):
        return params
    role = message.get("role", "user")
    named = _ROLES.get(role, role) if isinstance(role, str) else role
    whole = {"messageId": f"msg-{uuid4()}", **message, "role": named}
    rest = {key: value for key, value in params.items() if key != "request"}
    return {**rest, "message": whole}
