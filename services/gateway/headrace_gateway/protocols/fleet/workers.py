"""Draining workers: they start no more runs, and end once their active ones have ended."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import NobodyListens
from headrace.model.messages import Draining
from headrace.model.subjects import is_token
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, check_body_type
from headrace_gateway.server.json_response import json_response
from headrace_gateway.services import Services

PATH = "/v1/workers/{worker}:drain"

_TIMEOUT = 5.0
"""Seconds in which a worker answers."""


class WorkerUnknown(CodedError):
    """No such worker is there, or it is not in the directory and the request names no agent."""

    code = "worker_unknown"
    status = HTTPStatus.NOT_FOUND


class DrainingWorkers:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Drain workers over the bus of `services`."""
        self._services = services

    async def drain(self, request: Request) -> ASGIApp:
        """Ask the worker to drain, or how many runs it still has.

        The query's `agent` also finds a worker that is not in the directory.
        """
        services, caller = self._services, caller_of(self._services, request)
        name = request.path_params["worker"]
        await services.access.check_operator(caller, "DrainWorker", process=name)
        check_body_type(request)
        agent = request.query_params.get("agent") or self._agent_of(name)
        runs = await self._runs_of_draining(name, agent)
        return json_response({"worker": name, "agent": agent, "runs": runs})

    def _agent_of(self, name: str) -> str:
        agent = self._services.directory.workers_to_ask().get(name)
        if agent is None:
            raise _unknown(name)
        return agent

    async def _runs_of_draining(self, name: str, agent: str) -> int:
        if not is_token(name) or not is_token(agent):
            raise _unknown(name)
        bus = self._services.bus
        subject = bus.subjects.drain(agent, name)
        try:
            answer = await bus.request(subject, b"", _TIMEOUT)
        except NobodyListens:
            raise _unknown(name) from None
        return Draining.decode(subject, answer.data).runs


def _unknown(name: str) -> WorkerUnknown:
    return WorkerUnknown(f"worker {name!r} does not exist or has stopped")
