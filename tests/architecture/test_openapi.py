"""The OpenAPI document is valid, and says of every route what it does."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route

from headrace.model.events import Json
from headrace_gateway.api_sections import SECTIONS
from headrace_gateway.app import routes_of
from headrace_gateway.openapi.document import openapi_document
from headrace_gateway.openapi.html_page import html_page
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from tests.support.memory_gateway import memory_services

LEFT_OUT: Mapping[str, str] = {
    r"/": "the default agent's JSON-RPC and card, and the console's address for browsers",
    r"/console/?": "leads to /console/{path}",
    r"/(message|tasks|contexts|rpc|stream|extendedAgentCard).*": "the default agent's",
    r"/api/(agent|chat).*": "the default agent's",
    r"(/v1/agents/\{agent\})?/v1/(message|tasks/|card).*": "of A2A 0.3",
    r"(/v1/agents/\{agent\})?/\{tenant\}/.*": "with the tenant, as cards may require it",
    r"/v1/agents(/\{agent\}(/ag-ui)?)?/": "the same with a slash",
    r"/copilotkit/": "the same with a slash",
    r".*/\.well-known/agent\.json": "of A2A before 0.3",
    r"/v1/agents/\.well-known/agent-card\.json": "refuses a path resolved against the wrong base",
}
"""Routes that the document describes in words only, by patterns of their paths."""


@cache
def document() -> Json:
    """The document as clients get it."""
    read: Json = orjson.loads(orjson.dumps(openapi_document(SECTIONS)))
    return read


def operations() -> set[tuple[str, str]]:
    """Method and path of each operation in the document."""
    return {(method.upper(), path) for path, item in document()["paths"].items() for method in item}


async def served() -> set[tuple[str, str]]:
    """Method and path of each route of a gateway of `headrace dev`, which has all of them."""
    settings = GatewaySettings(dev_control=Path("control.sock"))
    async with memory_services(OpenRequests(), settings) as services:
        routes = routes_of(services, PROTOCOLS)
    return {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }


def is_left_out(path: str) -> bool:
    return any(re.fullmatch(pattern, path) for pattern in LEFT_OUT)


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(document()).validate()


async def test_every_route_is_in_the_document_or_left_out_for_a_reason() -> None:
    found = await served()
    assert len(found) > 100
    assert operations() - found == set()
    left = {(method, path) for method, path in found - operations() if not is_left_out(path)}
    assert left == set(), "describe them in the openapi.py of their protocol"
    assert [pattern for pattern in LEFT_OUT if not any(is_of(pattern, one) for one in found)] == []


def is_of(pattern: str, route: tuple[str, str]) -> bool:
    return re.fullmatch(pattern, route[1]) is not None


def test_a_route_that_nobody_describes_is_seen() -> None:
    assert not is_left_out("/v1/fleet/secrets")
    assert not is_left_out("/v1/agents/{agent}/tasks/{id}")


def test_the_page_has_each_operation_and_schema_and_loads_nothing() -> None:
    whole, page = document(), html_page(document()).decode()
    ids = [one["operationId"] for item in whole["paths"].values() for one in item.values()]
    anchors = set(re.findall(r'id="([^"]+)"', page))
    schemas = {f"schema-{name}" for name in whole["components"]["schemas"]}
    assert anchors == {*ids, *schemas}
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors
    assert re.findall(r"<(?:script|link|img|iframe)", page) == []
    assert set(re.findall(r'(?:href|src)="([^#"][^"]*)"', page)) == {"openapi.json"}
