"""Routes of the protocol."""

from collections.abc import Sequence

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace.model.cursor import Cursor
from headrace_gateway.call import call_of
from headrace_gateway.problems import problem_of
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import map_errors
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.tasks.ids import mint_message_id, task_key
from headrace_gateway.tasks.submission import Submission
from headrace_gateway.tasks.subscribe import NothingFollows, OpenedStream
from tests.support.json_lines.renderer import BODY, LINES, LineRenderer, line


def routes(services: Services) -> Sequence[BaseRoute]:
    """Return the protocol's routes, for the table."""
    endpoint = _Endpoint(services)
    pages = ("POST", "", endpoint.begin), ("GET", "/{task}", endpoint.follow)
    return [
        Route(f"/lines/{{agent}}{path}", map_errors(page, _refused), methods=[method])
        for method, path, page in (*pages, ("DELETE", "/{task}", endpoint.cancel))
    ]


class _Endpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def begin(self, request: Request) -> ASGIApp:
        services = self._services
        call = await call_of(services, request, "SendStreamingMessage")
        text = (await read_body(request, services.body_limits)).decode()
        part = {"text": text}
        message = {"messageId": mint_message_id(), "role": "ROLE_USER", "parts": [part]}

        async def opening() -> ASGIApp:
            submission = Submission(call.caller, call.agent, message)
            accepted = await services.submissions.submit(submission)
            return self._stream(OpenedStream(accepted.held, 0, accepted.log))

        return await services.stream_limits.with_permit(call.caller, opening)

    async def follow(self, request: Request) -> ASGIApp:
        services = self._services
        call = await call_of(services, request, "SubscribeToTask")
        key = task_key(services.settings, call.caller, call.agent, request.path_params["task"])

        async def opening() -> ASGIApp:
            try:
                opened = await services.task_streams.open(call.caller, key, call.cursor)
            except NothingFollows:
                return Response(status_code=204)
            return self._stream(opened)

        return await services.stream_limits.with_permit(call.caller, opening)

    async def cancel(self, request: Request) -> ASGIApp:
        services = self._services
        call = await call_of(services, request, "CancelTask")
        key = task_key(services.settings, call.caller, call.agent, request.path_params["task"])
        found = await services.canceler.cancel(call.caller, key)
        return json_response(found.task["status"])

    def _stream(self, opened: OpenedStream) -> HttpStream:
        opening = b""
        if opened.first is not None:
            cursor = str(Cursor(opened.log, opened.first.generation))
            event = orjson.dumps(opened.first.event)
            opening = line(cursor, event, recovered=opened.recovered)
        renderer = LineRenderer(LINES, opening=opening)
        shared = self._services.subscriptions
        return HttpStream(shared, opened.held, opened.after, renderer, body=BODY)


def _refused(_: Request, error: Exception) -> Response:
    problem = problem_of(error)
    return json_response({"error": problem.message}, problem.http_status)
