"""A2A extensions that the gateway itself offers, and which of them a call activates."""

from a2a.extensions.common import get_requested_extensions

from headrace.events import Json

CURSORS = "urn:headrace:cursor:v1"
"""Every SSE frame has a cursor as its ``id``; SubscribeToTask resumes behind ``Last-Event-ID``."""

OFFERED: tuple[Json, ...] = (
    {
        "uri": CURSORS,
        "description": (
            "Streams can be resumed: each event's SSE id is a cursor, and SubscribeToTask with "
            "the header Last-Event-ID (or ?after=) goes on behind it, also when the task is over. "
            "If that past is gone, the response says Headrace-Recovered: false and begins with "
            "the Task, whose metadata says headrace.recovered: false."
        ),
        "required": False,
    },
)
"""As they stand in every card's capabilities."""

_URIS = frozenset(str(extension["uri"]) for extension in OFFERED)


def activated(headers: list[str]) -> tuple[str, ...]:
    """Return which of the extensions that the values of `A2A-Extensions` name are offered."""
    return tuple(sorted(_URIS & get_requested_extensions(headers))) if headers else ()
