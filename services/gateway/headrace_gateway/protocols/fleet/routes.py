"""Routes of the fleet API."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace import log_context, tracing
from headrace.log_context import LogContext
from headrace_gateway.call import AGENT
from headrace_gateway.json_errors import map_errors_to_json
from headrace_gateway.protocols.fleet import (
    dead_letters,
    dev_processes,
    feedback,
    fleet_state,
    operator_actions,
    own_letters,
    processes,
    schedules,
    task_log,
    task_rows,
    threads,
    triggers,
    usage,
    versions,
    watch,
    webhook_deliveries,
)
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services


def routes(services: Services) -> Sequence[BaseRoute]:
    """Return the routes."""
    log, fleet = task_log.TaskLog(services), fleet_state.FleetState(services)
    watching, opinions = watch.TaskWatch(services), feedback.TaskFeedback(services)
    letters = dead_letters.DeadLetterPages(services)
    triggering, one_trigger = triggers.TriggerPages(services), f"{triggers.PATH}/{{name}}"
    asking = processes.ProcessPages(services)
    of_agent = versions.VersionPages(services)
    scheduling, one_schedule = schedules.SchedulePages(services), f"{schedules.PATH}/{{name}}"
    of_owner = threads.ThreadPages(services)
    pages: Sequence[tuple[str, str, Endpoint]] = (
        ("GET", f"{AGENT}{task_log.PATH}", log.read),
        ("GET", f"{AGENT}{feedback.PATH}", opinions.read),
        ("PUT", f"{AGENT}{feedback.PATH}", opinions.put),
        ("GET", f"{AGENT}{watch.PATH}", watching.watch),
        ("GET", watch.ALL_PATH, watching.watch_all),
        ("GET", task_rows.PATH, task_rows.TaskRowPages(services).read),
        ("GET", fleet_state.PATH, fleet.read),
        ("GET", f"{versions.PATH}/versions", of_agent.list),
        ("POST", f"{versions.PATH}:route", of_agent.route),
        ("POST", f"{versions.PATH}:rollback", of_agent.roll_back),
        ("POST", f"{versions.PATH}:retire", of_agent.retire),
        ("GET", threads.PATH, of_owner.page),
        ("GET", f"{threads.ONE}/events", of_owner.follow),
        ("GET", threads.ONE, of_owner.show),
        ("PATCH", threads.ONE, of_owner.change),
        ("DELETE", threads.ONE, of_owner.delete),
        ("GET", usage.PATH, usage.UsagePage(services).read),
        ("GET", webhook_deliveries.PATH, webhook_deliveries.WebhookDeliveries(services).list),
        ("GET", schedules.PATH, scheduling.list),
        ("GET", one_schedule, scheduling.get),
        ("PUT", one_schedule, scheduling.put),
        ("DELETE", one_schedule, scheduling.delete),
        ("GET", f"{one_schedule}{own_letters.PATH}", scheduling.letters.page),
        ("GET", f"{one_schedule}{own_letters.PATH}/{{number}}", scheduling.letters.one),
        ("POST", f"{one_schedule}:pause", scheduling.pause),
        ("POST", f"{one_schedule}:resume", scheduling.resume),
        ("POST", f"{one_schedule}:run", scheduling.run),
        ("POST", f"{one_schedule}:backfill", scheduling.back_fill),
        ("GET", processes.PATH, asking.list),
        ("POST", f"{processes.PATH}:logLevel", asking.log_level),
        ("GET", triggers.PATH, triggering.list),
        ("GET", one_trigger, triggering.show),
        ("PUT", one_trigger, triggering.put),
        ("DELETE", one_trigger, triggering.delete),
        ("GET", f"{one_trigger}{own_letters.PATH}", triggering.letters.page),
        ("GET", f"{one_trigger}{own_letters.PATH}/{{number}}", triggering.letters.one),
        ("POST", f"{one_trigger}:pause", triggering.pause),
        ("POST", f"{one_trigger}:resume", triggering.resume),
        ("GET", dead_letters.PATH, letters.list),
        ("GET", f"{dead_letters.PATH}/{{number}}", letters.show),
        ("POST", f"{dead_letters.PATH}:retry", letters.retry),
        ("POST", f"{dead_letters.PATH}:drop", letters.drop),
        *operator_actions.OperatorActions(services).pages(),
        *dev_processes.pages(services),
    )
    return [
        Route(path, map_errors_to_json(_in_trace(page)), methods=[method])
        for method, path, page in pages
    ]


def _in_trace(page: Endpoint) -> Endpoint:
    """Return `page` with the client's trace in its log lines, those of the audit log among them."""

    async def endpoint(request: Request) -> ASGIApp:
        if traceparent := tracing.stated_traceparent(request.headers):
            log_context.begin(LogContext(traceparent=traceparent))
        return await page(request)

    return endpoint
