"""What operators do: drain a worker, end a task as FAILED, rotate the fleet's signing key.

Workers that drain start no more runs, and end once their active ones have ended. A task ends also
while a worker holds it. The signing key is that of all tenants.
"""

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import NobodyListens
from headrace.model.messages import Draining
from headrace.model.subjects import is_token
from headrace.model.task import FAILED
from headrace.signing import rotate
from headrace.tasks.end import ENDED_BY_OPERATOR, fail_task
from headrace_gateway.call import AGENT, caller_of
from headrace_gateway.json_errors import CodedError, InputInvalid, check_body_type, read_object
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.server.auth.caller import ANY_AGENT
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

_TIMEOUT = 5.0
"""Seconds in which a worker answers."""

_LONGEST_REASON = 1000


class WorkerUnknown(CodedError):
    """No such worker is there, or it is not in the directory and the request names no agent."""

    code = "worker_unknown"
    status = HTTPStatus.NOT_FOUND


class KeysInFiles(CodedError):
    """The gateway's settings name the keys, so that another one would not be used."""

    code = "keys_in_files"
    status = HTTPStatus.CONFLICT


class OperatorActions:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Act over the bus of `services`."""
        self._services = services

    def pages(self) -> list[tuple[str, str, Endpoint]]:
        """Return method, path and endpoint of each action."""
        return [
            ("POST", "/v1/workers/{worker}:drain", self.drain),
            ("POST", f"{AGENT}/tasks/{{task}}:fail", self.fail),
            ("POST", "/v1/signing-keys:rotate", self.rotate_key),
        ]

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

    async def fail(self, request: Request) -> ASGIApp:
        """End the task."""
        services, caller = self._services, caller_of(self._services, request)
        agent, task = request.path_params["agent"], request.path_params["task"]
        await services.access.check_operator(caller, "FailTask", agent, task)
        if services.directory.card(agent) is None:
            raise AgentUnknown.called(agent, at_root=False)
        body = await read_object(request, services.body_limits, may_be_empty=True)
        reason = body.get("reason", ENDED_BY_OPERATOR)
        if not isinstance(reason, str) or not 0 < len(reason) <= _LONGEST_REASON:
            raise InputInvalid(f"reason: must be a text of 1 to {_LONGEST_REASON} characters")
        await fail_task(services.bus, task_key(services.settings, caller, agent, task), reason)
        return json_response({"task": task, "state": FAILED})

    async def rotate_key(self, request: Request) -> ASGIApp:
        """Add a key; return its id, after how many seconds it signs, and which it replaces."""
        services, caller = self._services, caller_of(self._services, request)
        await services.access.check_operator(caller, "RotateSigningKey")
        at_once = await self._at_once(request)
        if services.settings.signing_keys:
            raise KeysInFiles("HEADRACE_SIGNING_KEYS names the keys: add the new key's file there")
        await services.access.record(caller, ANY_AGENT, "RotateSigningKey")
        rotation = await rotate(services.bus, at_once=at_once)
        return json_response(rotation.shown(), headers=NO_STORE)

    async def _at_once(self, request: Request) -> bool:
        body = await read_object(request, self._services.body_limits, may_be_empty=True)
        if unknown := ", ".join(body.keys() - {"atOnce"}):
            raise InputInvalid(f"{unknown}: unknown; the body may have atOnce")
        at_once = body.get("atOnce", False)
        if not isinstance(at_once, bool):
            raise InputInvalid("atOnce: must be true or false")
        return at_once


def _unknown(name: str) -> WorkerUnknown:
    return WorkerUnknown(f"worker {name!r} does not exist or has stopped")
