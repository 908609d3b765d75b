"""The routes of OpenAI's API; what serves them is imported with the first request for one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from headrace.lazy import Lazy
from headrace_gateway.protocols.openai.errors import with_errors
from headrace_gateway.server.endpoints import EndpointApp, on_demand
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services

if TYPE_CHECKING:
    from headrace_gateway.protocols.openai.endpoint import OpenAIEndpoint

type _Page = Callable[["OpenAIEndpoint"], Endpoint]

_RESPONSE = "/v1/responses/{response}"

_PAGES: Sequence[tuple[str, str, _Page]] = (
    ("GET", "/v1/models", lambda door: door.models),
    ("GET", "/v1/models/{agent}", lambda door: door.model),
    ("POST", "/v1/chat/completions", lambda door: door.complete),
    ("POST", "/v1/responses", lambda door: door.respond),
    ("GET", _RESPONSE, lambda door: door.response),
    ("DELETE", _RESPONSE, lambda door: door.delete),
    ("POST", f"{_RESPONSE}/cancel", lambda door: door.cancel),
    ("GET", f"{_RESPONSE}/input_items", lambda door: door.input_items),
)


def routes(services: Services) -> list[BaseRoute]:
    """Return the routes, for the table."""
    door = Lazy(partial(_endpoint, services))
    return [
        Route(path, EndpointApp(with_errors(on_demand(door, page))), methods=[method])
        for method, path, page in _PAGES
    ]


def _endpoint(services: Services) -> "OpenAIEndpoint":
    from headrace_gateway.protocols.openai.endpoint import OpenAIEndpoint  # noqa: PLC0415 - see above

    return OpenAIEndpoint(services)
