"""What a parent asks, as it stands in the child's log."""

import secrets

from headrace.events import Json
from headrace.messages import StartTask


def as_asked(query: StartTask, task: str) -> Json:
    """Return the child's message: named after the child, and pointing at the parent."""
    referred = [one for one in query.message.get("referenceTaskIds", []) if one != query.parent]
    return {
        **query.message,
        "messageId": query.message.get("messageId") or f"{task}-{query.leg}",
        "role": "ROLE_USER",
        "referenceTaskIds": [query.parent, *referred],
    }


def writer_id() -> str:
    """Return a writer id for one append."""
    return f"task-state-{secrets.token_hex(6)}"
