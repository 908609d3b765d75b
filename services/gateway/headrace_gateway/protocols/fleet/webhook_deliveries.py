"""Webhooks of the operator's tenant that have events to deliver, and the last error of each."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.events import Json, timestamp
from headrace.model.subjects import decode_token, is_token
from headrace.model.task import is_task_id
from headrace.webhooks import QueuedWebhook
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.fleet.parameters import LARGEST_NUMBER, number_in
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/webhook-deliveries"
OPERATION = "ListWebhookDeliveries"

_MOST = 200
_USUAL = 50


class WebhookDeliveries:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Show the webhooks on the bus of `services`."""
        self._services = services

    async def list(self, request: Request) -> ASGIApp:
        """Return a page of them, oldest first."""
        services, query = self._services, request.query_params
        caller = caller_of(services, request)
        await services.access.check_operator(caller, OPERATION)
        agent, task = query.get("agent") or "*", query.get("task") or "*"
        if agent != "*" and not is_token(agent):
            raise InputInvalid("agent: must be the name of an agent")
        if task != "*" and not is_task_id(task):
            raise InputInvalid("task: must be the id of a task")
        after = number_in(query, "after", 0, LARGEST_NUMBER, 0)
        limit = number_in(query, "limit", 1, _MOST, _USUAL)
        found = await services.webhooks.queued(caller.tenant, agent, task, after, limit)
        content = {
            "deliveries": [_shown(one) for one in found],
            "next": found[-1].sequence if len(found) == limit else None,
        }
        return json_response(content, headers=NO_STORE)


def _shown(queued: QueuedWebhook) -> Json:
    """Return it without what only the task's owner may see: the path, the query, credentials."""
    shown: Json = {
        "id": queued.sequence,
        "agent": queued.key.agent,
        "task": queued.key.task,
        "webhook": decode_token(queued.token),
        "queued": queued.queued,
    }
    if queued.webhook is None:
        return shown
    progress, address = queued.webhook.progress, urlsplit(queued.webhook.address.url)
    due = timestamp(datetime.fromtimestamp(progress.due, UTC))
    return {
        **shown,
        "owner": decode_token(queued.webhook.owner),
        "receiver": f"{address.scheme}://{address.hostname}",
        "delivered": progress.generation,
        "attempts": progress.attempts,
        "due": due if progress.due else None,
        "lastError": progress.failure or None,
    }
