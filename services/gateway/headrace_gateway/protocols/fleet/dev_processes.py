"""Development only: the processes of `headrace dev`, to list and to kill.

A gateway can kill nothing itself: it asks the stack's supervisor at the socket that the supervisor
passes to its gateways.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model import json_text
from headrace.model.events import Json
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, InputInvalid, check_body_type
from headrace_gateway.protocols.fleet.parameters import whole_number
from headrace_gateway.server.development import is_development
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.server.origin import Origins, PageRefused
from headrace_gateway.services import Services

PATH = "/v1/dev/processes"

_ROLES = ("gateway", "worker", "task-state", "triggers", "nats", "redis")
_LARGEST_INDEX = 63
_TIMEOUT = 5.0
"""Seconds in which the supervisor answers."""


class SupervisorUnavailable(CodedError):
    """The supervisor of the development stack does not answer."""

    code = "supervisor_unavailable"
    status = HTTPStatus.SERVICE_UNAVAILABLE


class ProcessUnknown(CodedError):
    """No such process of the development stack runs."""

    code = "process_unknown"
    status = HTTPStatus.NOT_FOUND


def pages(services: Services) -> Sequence[tuple[str, str, Endpoint]]:
    """Return the endpoints with method and path; none unless the gateway is in development."""
    socket = services.settings.dev_control
    if socket is None or not is_development(services.settings):
        return ()
    processes = _Processes(services, socket)
    return (
        ("GET", PATH, processes.list),
        ("POST", f"{PATH}/{{role}}/{{index}}:kill", processes.kill),
    )


class _Processes:
    def __init__(self, services: Services, socket: Path) -> None:
        self._services, self._socket = services, socket
        self._origins = Origins(services.settings)

    async def list(self, request: Request) -> ASGIApp:
        """Return the processes."""
        await self._check(request, "GetFleet")
        return json_response(await self._request({}), headers=NO_STORE)

    async def kill(self, request: Request) -> ASGIApp:
        """Kill one process, and return all."""
        role, number = request.path_params["role"], request.path_params["index"]
        await self._check(request, "KillProcess", f"{role}-{number}")
        check_body_type(request)
        if role not in _ROLES:
            raise InputInvalid(f"role: must be one of {', '.join(_ROLES)}")
        index = whole_number(number, "index", 0, _LARGEST_INDEX)
        answer = await self._request({"kill": {"role": role, "index": index}})
        return json_response(answer, headers=NO_STORE)

    async def _check(self, request: Request, operation: str, process: str = "") -> None:
        # HEADRACE_CORS_ORIGINS lets pages of this machine use the agents, not end the processes.
        if refusal := self._origins.refusal_of_other_pages(request.headers):
            raise PageRefused(refusal)
        caller = caller_of(self._services, request)
        await self._services.access.check_operator(caller, operation, process=process)

    async def _request(self, request: Json) -> Json:
        try:
            async with asyncio.timeout(_TIMEOUT):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    writer.write(json_text.encode(request) + b"\n")
                    answer: Json = json_text.decode(await reader.readline())
                finally:
                    writer.close()
        except (OSError, ValueError) as error:  # TimeoutError is an OSError.
            raise SupervisorUnavailable(f"headrace dev does not answer: {error}") from None
        if "error" in answer:
            raise ProcessUnknown(answer["error"])
        return answer
