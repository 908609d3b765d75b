"""The versions of an agent, for operators: show them, route new tasks, roll back and retire.

Routes are the fleet's: a change applies to all tenants.
"""

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.agent_versions import AgentVersions
from headrace.model.agent_route import AgentRoute, Candidate
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.subjects import encode_token
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid, read_object
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/fleet/agents/{agent}"

_ALL = 100


class VersionPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Use the directory and the bus of `services`."""
        self._services = services

    async def list(self, request: Request) -> ASGIApp:
        """Return the agent's versions and its route."""
        agent, versions = await self._versions(request, "GetAgentVersions")
        found = await versions.list(agent)
        return _answer({"agent": agent, "versions": [one.shown() for one in found]})

    async def route(self, request: Request) -> ASGIApp:
        """Send all or some of the new tasks to a version."""
        agent, versions = await self._versions(request, "RouteAgent")
        body = await self._body(request)
        candidate = _candidate(body)
        if candidate is None:
            return _routed(agent, await versions.promote(agent, _text(body, "version")))
        return _routed(agent, await versions.try_out(agent, candidate))

    async def roll_back(self, request: Request) -> ASGIApp:
        """Send new tasks to the version before."""
        agent, versions = await self._versions(request, "RouteAgent")
        body = await self._body(request)
        move = body.get("move", False)
        if not isinstance(move, bool):
            raise InputInvalid("move: must be true or false")
        return _routed(agent, (await versions.roll_back(agent, move=move)).route)

    async def retire(self, request: Request) -> ASGIApp:
        """Forget a version that has no open tasks, or whose tasks another one continues."""
        agent, versions = await self._versions(request, "RetireAgentVersion")
        body = await self._body(request)
        version = _text(body, "version")
        move_to = _text(body, "moveTo") if "moveTo" in body else None
        moved = await versions.retire(agent, version, move_to=move_to)
        return _answer({"agent": agent, "version": version, "movedTasks": moved})

    async def _versions(self, request: Request, operation: str) -> tuple[str, AgentVersions]:
        services, caller = self._services, caller_of(self._services, request)
        agent = request.path_params["agent"]
        await services.access.check_operator(caller, operation, agent)
        return agent, AgentVersions(services.bus, services.directory)

    async def _body(self, request: Request) -> Json:
        return await read_object(request, self._services.body_limits, may_be_empty=True)


def _candidate(body: Json) -> Candidate | None:
    """Return the rule in a body; None: the version gets all new tasks."""
    percent = body.get("percent", 0)
    if type(percent) is not int or not 0 <= percent <= _ALL:
        raise InputInvalid(f"percent: must be a whole number from 0 to {_ALL}")
    tenants, headers = body.get("tenants", []), body.get("headers", {})
    if not isinstance(tenants, list) or not all(isinstance(one, str) for one in tenants):
        raise InputInvalid("tenants: must be a list of names")
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        raise InputInvalid("headers: must be an object of texts")
    if not body.keys() & {"percent", "tenants", "headers"}:
        return None
    try:
        tokens = [encode_token(tenant) for tenant in tenants]
    except InvalidName as error:
        raise InputInvalid(f"tenants: {error.rule}") from None
    named = {name.lower(): value for name, value in headers.items()}
    version = _text(body, "version")
    return Candidate(version=version, percent=percent, tenants=tokens, headers=named)


def _text(body: Json, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise InputInvalid(f"{name}: must be a version, as a text")
    return value


def _routed(agent: str, route: AgentRoute) -> ASGIApp:
    return _answer({"agent": agent, **route.shown()})


def _answer(content: Json) -> ASGIApp:
    return json_response(content, headers=NO_STORE)
