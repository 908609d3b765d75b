"""A2A extensions that the gateway itself offers, and which of them a request activates."""

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from starlette.requests import Request

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

_URIS = {extension["uri"] for extension in OFFERED}


def activated(request: Request) -> dict[str, str]:
    """Return the header that says which of the extensions that the request names are active."""
    named = get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER))
    active = sorted(named & _URIS)
    return {HTTP_EXTENSION_HEADER: ", ".join(active)} if active else {}
