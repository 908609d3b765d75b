"""The running processes of all services, for operators: what they are, and their log levels."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import get_args

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.messages import LogLevel, ProcessFound, ProcessQuery
from headrace.model.subjects import is_token
from headrace.processes import SERVICES, ask_processes
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, InputInvalid, check_body_type, json_object
from headrace_gateway.server.auth.caller import ANY_AGENT
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/processes"

_LEVELS: tuple[str, ...] = get_args(LogLevel.__value__)
_FIELDS = frozenset({"level", "service", "process"})
_SET_LEVEL = "SetLogLevel"


class ProcessNotFound(CodedError):
    """No such process answers."""

    code = "process_unknown"
    status = HTTPStatus.NOT_FOUND


class ProcessPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Ask processes over the bus of `services`."""
        self._services = services

    async def list(self, request: Request) -> ASGIApp:
        """Return what each process is."""
        services, caller = self._services, caller_of(self._services, request)
        await services.access.check_operator(caller, "ListProcesses")
        return self._answer(await self._found(ProcessQuery()))

    async def log_level(self, request: Request) -> ASGIApp:
        """Have processes log at another level, and return those that do."""
        services, caller = self._services, caller_of(self._services, request)
        await services.access.check_operator(caller, _SET_LEVEL)
        check_body_type(request)
        body = json_object(await read_body(request, services.body_limits))
        level, service, process = _stated(body)
        named = process or service or "all"
        await services.access.record(caller, ANY_AGENT, _SET_LEVEL, process=named, log_level=level)
        query = ProcessQuery.model_validate({"process": process, "log_level": level})
        found = await self._found(query, service)
        if not found:
            raise ProcessNotFound(f"no process of {service or 'any service'} answers as {named!r}")
        return self._answer(found)

    async def _found(
        self, query: ProcessQuery, service: str | None = None
    ) -> Sequence[ProcessFound]:
        services, named = self._services, SERVICES if service is None else (service,)
        return await ask_processes(services.bus, query, services.directory.workers(), named)

    @staticmethod
    def _answer(found: Sequence[ProcessFound]) -> ASGIApp:
        shown = [
            {
                "service": one.service,
                "process": one.process,
                "release": one.release,
                "reads": one.reads,
                "writes": one.writes,
                "logLevel": one.log_level,
            }
            for one in found
        ]
        return json_response({"processes": shown}, headers=NO_STORE)


def _stated(body: dict[str, object]) -> tuple[str, str | None, str | None]:
    """Return level, service and process.

    Raises:
        InputInvalid: one breaks a rule; the message names all that do.
    """
    level, service, process = (body.get(name) for name in ("level", "service", "process"))
    problems = [f"{name}: is unknown" for name in sorted(body.keys() - _FIELDS)]
    if level not in _LEVELS:
        problems.append(f"level: must be one of {', '.join(_LEVELS)}")
    if service is not None and service not in SERVICES:
        problems.append(f"service: must be one of {', '.join(SERVICES)}")
    if process is not None and not (isinstance(process, str) and is_token(process)):
        problems.append("process: must be the id of a process")
    if problems:
        raise InputInvalid("; ".join(problems))
    named = (None if one is None else str(one) for one in (service, process))
    return str(level), next(named), next(named)
