"""CopilotKit's runtime routes: list agents, start runs, reconnect to threads, stop runs.

Based on @copilotkit/core 1.75, which uses either one URL per method or a single URL for all.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol, Self

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace.directory import AgentCard
from headrace.model import json_text
from headrace.model.a2ui import EXTENSION
from headrace.model.events import Json
from headrace.model.nesting import RULE
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import (
    ErrorAnswer,
    InputInvalid,
    check_body_type,
    json_object,
    map_errors_to_json,
)
from headrace_gateway.protocols.copilotkit.default_agent import DEFAULT, known_name
from headrace_gateway.protocols.copilotkit.threads import RuntimeThreads
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.body import read_body, with_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import EVENT_STREAM


class Runs(Protocol):
    """The AG-UI operations that the routes delegate to."""

    async def run(self, request: Request) -> ASGIApp:
        """Start the run that the body describes and return its stream."""

    async def resumed(self, request: Request) -> ASGIApp | None:
        """Return the stream of the newest run in the body's thread, or None if it has no runs."""

    async def stopped(self, request: Request, thread: str, run: str | None) -> bool:
        """Stop the given run, or the thread's newest; return False if it was not running."""

    def capabilities_of(self, card: AgentCard) -> Json:
        """Return an agent's capabilities in AG-UI's format."""


def _content(failure: ErrorAnswer) -> Json:
    return failure.content | {"message": failure.message}


BASE = "/copilotkit"

_FEATURES: Json = {
    "mode": "sse",
    "audioFileTranscriptionEnabled": False,
    "openGenerativeUIEnabled": False,
    "suggestions": False,
    "telemetryDisabled": True,
    "threadEndpoints": {
        "list": True,
        "inspect": False,
        "mutations": True,
        "realtimeMetadata": False,
    },
}
"""Which features of a runtime the client is told of."""


def _makes_surfaces(card: AgentCard) -> bool:
    return any(extension.get("uri") == EXTENSION for extension in card.extensions)


class CopilotRuntime:
    """Serves CopilotKit's client with the fleet's AG-UI runs."""

    def __init__(self, services: Services, runs: Callable[[], Awaitable[Runs]]) -> None:
        """Serve what `runs` returns over `services`."""
        self._services, self._runs = services, runs

    def routes(self) -> list[BaseRoute]:
        """Return the runtime's routes."""
        agent = f"{BASE}/agent/{{agent}}"
        threads = RuntimeThreads(self._services)
        pages: dict[str, tuple[Endpoint, str]] = {
            f"{BASE}/info": (self.info, "GET"),
            f"{agent}/run": (self.run, "POST"),
            f"{agent}/connect": (self.connect, "POST"),
            f"{agent}/stop/{any_text('thread')}": (self.stop, "POST"),
            BASE: (self.rpc_endpoint, "POST"),
            f"{BASE}/": (self.rpc_endpoint, "POST"),
        }
        every = [(path, page, method) for path, (page, method) in pages.items()]
        return [
            Route(path, map_errors_to_json(self._to_the_known(page), _content), methods=[method])
            for path, page, method in (*every, *threads.pages(BASE))
        ]

    def _to_the_known(self, page: Endpoint) -> Endpoint:
        async def endpoint(request: Request) -> ASGIApp:
            if request.method == "POST":
                caller_of(self._services, request)  # before a body is read
            return await page(request)

        return endpoint

    async def info(self, request: Request) -> Response:
        """Return the description of every agent."""
        self._services.callers.reader_of(request.headers)
        cards = {card.name: card for card in self._services.directory.cards()}
        default = cards.get(self._services.default_agent)
        if default is not None:
            cards.setdefault(DEFAULT, default)
        agents = {
            name: {
                "name": name,
                "description": card.description,
                "className": "Headrace",
                "capabilities": (await self._runs()).capabilities_of(card),
            }
            for name, card in cards.items()
        }
        content = {"version": version("headrace"), "agents": agents, **_FEATURES}
        drawing = [name for name, card in cards.items() if _makes_surfaces(card)]
        content["a2uiEnabled"] = bool(drawing)
        content["a2ui"] = {"enabled": bool(drawing), "agents": drawing}
        return json_response(content, headers=NO_STORE)

    async def run(self, request: Request) -> ASGIApp:
        """Start a run; the body is a RunAgentInput."""
        return await (await self._runs()).run(self._named(request))

    async def connect(self, request: Request) -> ASGIApp:
        """Return a thread's content and further events; empty for a thread without runs.

        The body is a RunAgentInput. Only its thread is used; its run does not exist.
        """
        stream = await (await self._runs()).resumed(self._named(request))
        return stream or Response(b"", media_type=EVENT_STREAM, headers=NO_STORE)

    async def stop(self, request: Request) -> ASGIApp:
        """Stop the run named in the body, or the thread's newest run."""
        request = self._named(request)
        thread = request.path_params["thread"]
        run = await self._run_to_stop(request)
        stopped = await (await self._runs()).stopped(request, thread, run)
        answer: Json = {"stopped": stopped}
        if not stopped:
            answer["message"] = f"thread {thread} has no active run"
        return json_response(answer, headers=NO_STORE)

    async def rpc_endpoint(self, request: Request) -> ASGIApp:
        """Handle an envelope: ``{"method", "params", "body"}``."""
        check_body_type(request)
        envelope = RuntimeRequest.read(await read_body(request, self._services.body_limits))
        unwrapped_request = unwrapped(request, envelope)
        match envelope.method:
            case "info":
                return await self.info(unwrapped_request)
            case "agent/run":
                return await self.run(unwrapped_request)
            case "agent/connect":
                return await self.connect(unwrapped_request)
            case "agent/stop":
                return await self.stop(unwrapped_request)
            case other:
                raise InputInvalid(f"method: unknown method {other}")

    async def _run_to_stop(self, request: Request) -> str | None:
        body = await read_body(request, self._services.body_limits)
        return RuntimeRequest.run_of(body) if body.strip() else None

    def _named(self, request: Request) -> Request:
        """Have the request name an agent of the fleet, if it names one."""
        if (stated := request.path_params.get("agent")) is not None:
            request.path_params["agent"] = known_name(self._services, stated)
        return request


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """One request to the single endpoint."""

    method: str
    """``info``, ``agent/run``, ``agent/connect`` or ``agent/stop``."""
    agent: str | None
    thread: str | None
    body: bytes
    """Body of the wrapped request."""

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parse a request body.

        Raises:
            InputInvalid: the body is invalid; the message names the field and the rule.
        """
        request = json_object(body, "the body")
        method = _text(request, "method", "")
        if method is None:
            raise InputInvalid("method: Field required")
        params = _inner(request, "params")
        agent, thread = _text(params, "agentId", "params."), _text(params, "threadId", "params.")
        if method != "info" and agent is None:
            raise InputInvalid("params.agentId: Field required")
        if method == "agent/stop" and thread is None:
            raise InputInvalid("params.threadId: Field required")
        inner = request.get("body")
        try:
            return cls(method, agent, thread, b"" if inner is None else json_text.encode(inner))
        except orjson.JSONEncodeError:
            # orjson parses deeper nesting than it can serialize.
            raise InputInvalid(f"body: {RULE}") from None

    @staticmethod
    def run_of(body: bytes) -> str | None:
        """Return the ``runId`` in the body of a stop request; None means the newest run.

        Raises:
            InputInvalid: the body is not a JSON object, or ``runId`` is not a non-empty string.
        """
        return _text(json_object(body, "the body"), "runId", "")


def unwrapped(request: Request, envelope: RuntimeRequest) -> Request:
    """Return the request that the envelope wraps."""
    named = {"agent": envelope.agent, "thread": envelope.thread}
    path = {key: value for key, value in named.items() if value is not None}
    return with_body(request, envelope.body, path_params=path)


def _inner(request: Json, name: str) -> Json:
    inner = request.get(name)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise InputInvalid(f"{name}: must be an object")
    return inner


def _text(request: Json, name: str, path: str) -> str | None:
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise InputInvalid(f"{path}{name}: must be a non-empty string")
    return value
