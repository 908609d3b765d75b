"""Where AG-UI clients start runs: a RunAgentInput in, a stream of events out."""

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace import parts
from headrace_gateway.a2a.call import Call, call_of
from headrace_gateway.a2a.media import check_parts
from headrace_gateway.agui.media_types import check_accept, check_body_type
from headrace_gateway.agui.refusal import answering_refusals
from headrace_gateway.agui.run_input import RunInput
from headrace_gateway.agui.run_stream import RunStream
from headrace_gateway.body import read_body
from headrace_gateway.services import Services

PATHS = ("/v1/agents/{agent}/ag-ui", "/v1/agents/{agent}/ag-ui/", "/api/agent")
"""The last is the default agent's."""


def routes(services: Services) -> list[Route]:
    """Return the routes of the AG-UI endpoint."""
    endpoint = answering_refusals(RunEndpoint(services).run)
    return [Route(path, endpoint, methods=["POST"]) for path in PATHS]


class RunEndpoint:
    """Starts runs."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    async def run(self, request: Request) -> ASGIApp:
        """Start the run that the request asks for and return its stream.

        Raises:
            RunRefused: the request is none for a run.
            A2AError, HeadraceError: as `call_of`, `check_parts`, `read_body` and `Intake.start`.
        """
        call = call_of(self._services, request)
        check_accept(request)
        check_body_type(request)
        body = await read_body(request, self._services.settings.max_body_bytes)
        asked = RunInput.read(body)
        _check_taken(call, asked)

        async def opening() -> ASGIApp:
            accepted = await self._services.intake.start(
                call.caller,
                call.agent,
                asked.message,
                context=asked.thread,
                metadata=asked.metadata,
            )
            return RunStream(self._services.event_streams, accepted)

        return await self._services.seats.seated(call.caller, opening)


def _check_taken(call: Call, asked: RunInput) -> None:
    """Return if the agent takes what the user said; tool results every agent takes.

    Raises:
        ContentTypeNotSupportedError: it does not.
    """
    said = [p for p in asked.message["parts"] if parts.event_type(p) != parts.TOOL_CALL]
    check_parts({**asked.message, "parts": said}, call.card)
