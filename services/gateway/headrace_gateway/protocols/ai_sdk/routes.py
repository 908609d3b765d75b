"""The routes of the AI SDK's transport.

What serves them is imported with the first request for one of them.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from headrace.lazy import Lazy
from headrace_gateway.json_errors import map_errors_to_json
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.endpoints import EndpointApp, on_demand
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services

if TYPE_CHECKING:
    from headrace_gateway.protocols.ai_sdk.endpoint import ChatEndpoint

BASES = ("/v1/agents/{agent}/ai-sdk", "/api/chat")
"""Base paths of an agent's chats; the last one, the SDK's own default, is the default agent's."""

_CHAT = any_text("chat")

type _Page = Callable[["ChatEndpoint"], Endpoint]

_PAGES: dict[str, tuple[_Page, str]] = {
    "": (lambda chats: chats.send, "POST"),
    f"/{_CHAT}/stream": (lambda chats: chats.stream, "GET"),
    f"/{_CHAT}/messages": (lambda chats: chats.messages, "GET"),
    f"/{_CHAT}/stop": (lambda chats: chats.stop, "POST"),
}


def routes(services: Services) -> list[BaseRoute]:
    """Return the routes of the chats."""
    chats = Lazy(partial(_endpoint, services))
    return [
        Route(
            base + path, EndpointApp(map_errors_to_json(on_demand(chats, page))), methods=[method]
        )
        for base in BASES
        for path, (page, method) in _PAGES.items()
    ]


def _endpoint(services: Services) -> "ChatEndpoint":
    from headrace_gateway.protocols.ai_sdk.endpoint import ChatEndpoint  # noqa: PLC0415 - see above

    return ChatEndpoint(services)
