"""What a parent asks, as it stands in the child's log."""

import secrets

from headrace.model.events import PRIORITY, TRACEPARENT, Json
from headrace.model.messages import StartTask
from headrace.model.subjects import NORMAL


def as_asked(query: StartTask, task: str) -> Json:
    """Return the child's message: named after the child, and pointing at the parent."""
    referred = [one for one in query.message.get("referenceTaskIds", []) if one != query.parent]
    return {
        **query.message,
        "messageId": query.message.get("messageId") or f"{task}-{query.leg}",
        "role": "ROLE_USER",
        "referenceTaskIds": [query.parent, *referred],
    }


def terms_of(query: StartTask) -> Json:
    """Return what the run of a child waits on, for its input: who asks for it again finds it."""
    terms: Json = {}
    if query.priority != NORMAL:
        terms[PRIORITY] = query.priority
    if query.traceparent:
        terms[TRACEPARENT] = query.traceparent
    return terms


def writer_id() -> str:
    """Return a writer id for one append."""
    return f"task-state-{secrets.token_hex(6)}"
