"""The route of the webhooks that runs wait for: whoever has the URL may call it, once."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace import clock
from headrace.model.events import timestamp
from headrace.model.wait import SourceEvent
from headrace_gateway.call import begin_as
from headrace_gateway.json_errors import map_errors_to_json
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.auth.schemes import key_headers
from headrace_gateway.server.body import CALLER, read_body
from headrace_gateway.server.endpoints import headers_of
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.webhook_call import MOST_BYTES, WebhookCall, passed_on
from headrace_gateway.tasks.webhook_secrets import WebhookSecrets

PATH = "/v1/waits/{token}"

_OPERATION = "SendMessage"
"""What a call is, for rates and the audit log: it has a task go on, as a message has."""

_ACCEPTED = 202


class WaitCalls:
    """The route."""

    def __init__(self, services: Services) -> None:
        """Record calls with `services`."""
        self._services, self._secrets = services, WebhookSecrets(services.bus)

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route(PATH, map_errors_to_json(self._call), methods=["POST"])]

    async def _call(self, request: Request) -> Response:
        services = self._services
        call = await WebhookCall.of(services.bus, self._secrets, request.path_params["token"])
        key = call.address.key
        caller = Caller.by_signature(key.tenant, call.owner, key.agent, _OPERATION)
        await begin_as(services, request, caller, _OPERATION, agent=key.agent, task=key.task)
        call.check()
        request.scope[CALLER] = caller
        body = await read_body(request, services.body_limits, MOST_BYTES)
        headers = headers_of(request.scope).first
        content_type = headers.get("content-type", "")
        card = services.directory.content.cards.get(key.agent)
        kept = passed_on(headers, key_headers([card] if card else []))
        arrival = SourceEvent(timestamp(clock.now()), body, content_type, kept)
        await services.background.run(call.record(arrival))
        return json_response({"state": "stored"}, _ACCEPTED, NO_STORE)
