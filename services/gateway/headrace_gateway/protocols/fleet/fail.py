"""Ending a task as FAILED, also while a worker holds it."""

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.task import FAILED
from headrace.tasks.end import ENDED_BY_OPERATOR, fail_task
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid, check_body_type, json_object
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

PATH = "/tasks/{task}:fail"
"""Path after an agent's path."""

_LONGEST_REASON = 1000


class FailingTasks:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """End tasks over the bus of `services`."""
        self._services = services

    async def fail(self, request: Request) -> ASGIApp:
        """End the task."""
        services, caller = self._services, caller_of(self._services, request)
        agent, task = request.path_params["agent"], request.path_params["task"]
        await services.access.check_operator(caller, "FailTask", agent, task)
        if services.directory.card(agent) is None:
            raise AgentUnknown.called(agent, at_root=False)
        check_body_type(request)
        body = await read_body(request, services.body_limits)
        reason = json_object(body).get("reason", ENDED_BY_OPERATOR) if body else ENDED_BY_OPERATOR
        if not isinstance(reason, str) or not 0 < len(reason) <= _LONGEST_REASON:
            raise InputInvalid(f"reason: must be a text of 1 to {_LONGEST_REASON} characters")
        await fail_task(services.bus, task_key(services.settings, caller, agent, task), reason)
        return json_response({"task": task, "state": FAILED})
