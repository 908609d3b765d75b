"""The triggers of callers: list, make, change, show and delete them.

A trigger runs as the caller that makes it, who needs to be allowed to send messages to its agent.
"""

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.events import PRIORITY
from headrace.model.subjects import NORMAL
from headrace.triggers import Trigger, TriggerStore, TriggerUnknown, may_use, read_spec
from headrace_gateway.call import call_of, caller_of
from headrace_gateway.json_errors import InputInvalid, check_body_type, json_object
from headrace_gateway.refusals import AgentUnknown, NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.terms import terms

PATH = "/v1/triggers"


class TriggerPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Use the triggers on the bus of `services`."""
        self._services, self._store = services, TriggerStore(services.bus)

    async def list(self, request: Request) -> ASGIApp:
        """Return the caller's triggers; those of its tenant, as far as it is an operator.

        Raises:
            HeadraceError: as `Access.check_anyone` and `TriggerStore.all`.
        """
        caller = self._caller(request, "ListTriggers")
        found = await self._store.all(caller.tenant)
        shown = [one.shown() for one in found if _is_seen(one, caller, "ListTasks")]
        return json_response({"triggers": shown}, headers=NO_STORE)

    async def show(self, request: Request) -> ASGIApp:
        """Return one trigger.

        Raises:
            TriggerUnknown: the caller has none of this name.
            HeadraceError: as `Access.check_anyone` and `TriggerStore.get`.
        """
        _, trigger = await self._find(request, "GetTrigger", "ListTasks")
        return json_response(trigger.shown(), headers=NO_STORE)

    async def put(self, request: Request) -> ASGIApp:
        """Make a trigger, or change it.

        Raises:
            InputInvalid: the declaration breaks a rule.
            AgentUnknown: there is no such agent.
            NotPermitted: the tenant may not use the subject.
            HeadraceError: as `call_of`, `terms` and `TriggerStore.put`.
        """
        services = self._services
        caller_of(services, request)  # before its body is read
        check_body_type(request)
        body = json_object(await read_body(request, services.body_limits))
        try:
            spec = read_spec({**body, "name": request.path_params["name"]})
        except ValueError as error:
            raise InputInvalid(str(error)) from None
        call = call_of(services, request, "PutTrigger", tenant=spec.agent)
        if call.agent != spec.agent:
            raise AgentUnknown(f"agent {spec.agent!r} does not exist")
        caller, settings = call.caller, services.settings
        if not may_use(spec.subject, caller.tenant, settings.trigger_subjects, settings.prefix):
            raise NotPermitted(f"your tenant may not use events on {spec.subject}")
        wished = spec.model_dump(include={"priority"} & spec.model_fields_set)
        priority = terms(caller, call.card, wished, "").get(PRIORITY, NORMAL)
        spec = spec.model_copy(update={"priority": priority})
        trigger, is_new = await self._store.put(spec, caller.tenant, caller.owner)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return json_response(trigger.shown(), status, NO_STORE)

    async def delete(self, request: Request) -> ASGIApp:
        """Delete a trigger; tasks that it began go on.

        Raises:
            TriggerUnknown: the caller has none of this name.
            HeadraceError: as `Access.check_anyone` and `TriggerStore.delete`.
        """
        caller, trigger = await self._find(request, "DeleteTrigger", "CancelTask")
        await self._store.delete(trigger)
        if trigger.owner != caller.owner:
            self._services.access.record(caller, trigger.agent, "DeleteTrigger")
        return json_response({"deleted": trigger.name}, headers=NO_STORE)

    async def _find(self, request: Request, operation: str, like: str) -> tuple[Caller, Trigger]:
        """Return the caller, and the trigger that the request names."""
        caller, name = self._caller(request, operation), request.path_params["name"]
        trigger = await self._store.get(caller.tenant, name)
        if not _is_seen(trigger, caller, like):
            raise TriggerUnknown(f"trigger {name!r} does not exist")
        return caller, trigger

    def _caller(self, request: Request, operation: str) -> Caller:
        caller = caller_of(self._services, request)
        self._services.access.check_anyone(caller, operation)
        return caller


def _is_seen(trigger: Trigger, caller: Caller, operation: str) -> bool:
    """Return whether it is the caller's, or one of its tenant whose tasks it operates.

    The operation is the one with tasks that comes nearest.
    """
    if trigger.owner == caller.owner:
        return caller.may(trigger.agent, operation)
    return caller.operates(trigger.agent, operation)
