"""Routes of the fleet API."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route

from headrace_gateway.call import AGENT
from headrace_gateway.json_errors import answering_errors
from headrace_gateway.protocols.fleet import fleet_state, task_log
from headrace_gateway.services import Services


def routes(services: Services) -> Sequence[BaseRoute]:
    """Return the routes."""
    log, fleet = task_log.TaskLog(services), fleet_state.FleetState(services)
    return [
        Route(f"{AGENT}{task_log.PATH}", answering_errors(log.read), methods=["GET"]),
        Route(fleet_state.PATH, answering_errors(fleet.read), methods=["GET"]),
    ]
