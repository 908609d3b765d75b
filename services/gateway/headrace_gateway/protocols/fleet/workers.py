"""Draining workers: they start no more runs, and end once their active ones have ended."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import NobodyListens
from headrace.model.messages import Draining
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, check_body_type
from headrace_gateway.server.json_response import json_response
from headrace_gateway.services import Services

PATH = "/v1/workers/{worker}:drain"

_TIMEOUT = 5.0
"""Seconds in which a worker answers."""


class WorkerUnknown(CodedError):
    """No such worker is in the directory, or it is draining already."""

    code = "worker_unknown"
    status = HTTPStatus.NOT_FOUND


class DrainingWorkers:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Drain workers over the bus of `services`."""
        self._services = services

    async def drain(self, request: Request) -> ASGIApp:
        """Ask the worker to drain.

        Raises:
            WorkerUnknown: there is no such worker.
            BusUnavailable: it does not answer.
            CodedError, HeadraceError: as `check_body_type` and `Access.check_operator`.
        """
        services, caller = self._services, caller_of(self._services, request)
        name = request.path_params["worker"]
        services.access.check_operator(caller, "DrainWorker", process=name)
        check_body_type(request)
        runs = await self._runs_of_draining(name)
        return json_response({"worker": name, "runs": runs})

    async def _runs_of_draining(self, name: str) -> int:
        unknown = WorkerUnknown(f"no worker {name!r} takes runs")
        worker = self._services.directory.workers().get(name)
        if worker is None:
            raise unknown
        bus = self._services.bus
        subject = bus.subjects.drain(worker.agents[0], name)
        try:
            answer = await bus.request(subject, b"", _TIMEOUT)
        except NobodyListens:
            raise unknown from None
        return Draining.decode(subject, answer.data).runs
