"""The running processes of all services, for operators: what they are, and their log levels."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.field_rule import problems
from headrace.model.messages import LogLevel, ProcessFound, ProcessQuery
from headrace.model.subjects import is_token
from headrace.processes import SERVICES, Service, ask_processes
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, InputInvalid, read_object
from headrace_gateway.server.auth.caller import ANY_AGENT
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/processes"

_SET_LEVEL = "SetLogLevel"


class ProcessNotFound(CodedError):
    """No such process answers."""

    code = "process_unknown"
    status = HTTPStatus.NOT_FOUND


def _process(text: str) -> str:
    if not is_token(text):
        raise ValueError("must be the id of a process")
    return text


class LogLevelChange(BaseModel):
    """The body of a request that changes log levels."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    level: LogLevel
    service: Service | None = None
    """None: every service."""
    process: Annotated[str, AfterValidator(_process)] | None = None
    """None: every process."""


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
        body = await read_object(request, services.body_limits)
        stated = _stated(body)
        level, named = stated.level, stated.process or stated.service or "all"
        await services.access.record(caller, ANY_AGENT, _SET_LEVEL, process=named, log_level=level)
        found = await self._found(
            ProcessQuery(process=stated.process, log_level=level), stated.service
        )
        if not found:
            service = stated.service or "any service"
            raise ProcessNotFound(f"no process of {service} answers as {named!r}")
        return self._answer(found)

    async def _found(
        self, query: ProcessQuery, service: Service | None = None
    ) -> Sequence[ProcessFound]:
        services, named = self._services, SERVICES if service is None else (service,)
        return await ask_processes(services.bus, query, services.directory.workers_to_ask(), named)

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


def _stated(body: dict[str, object]) -> LogLevelChange:
    """Return what the body states.

    Raises:
        InputInvalid: it breaks rules; the message names each field and the rule.
    """
    try:
        return LogLevelChange.model_validate(body)
    except ValidationError as error:
        raise InputInvalid("; ".join(problems(error, "the body"))) from None
