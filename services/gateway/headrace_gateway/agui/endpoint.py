"""Where AG-UI clients start runs and come back to them."""

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.events import Json
from headrace_gateway.a2a.call import Call, call_of
from headrace_gateway.agui.attaching import Attaching
from headrace_gateway.agui.beginning import begin
from headrace_gateway.agui.encodings import Encoding
from headrace_gateway.agui.history import Past, past_of
from headrace_gateway.agui.media_types import check_body_type, encoding_for
from headrace_gateway.agui.named_run import NamedRun, named_run
from headrace_gateway.agui.refusal import Endpoint, RunUnknown, answering_refusals
from headrace_gateway.agui.run_frames import RunFrames
from headrace_gateway.agui.run_input import RunInput
from headrace_gateway.agui.run_stream import RunStream
from headrace_gateway.agui.threads import Thread, ThreadRun
from headrace_gateway.body import read_body
from headrace_gateway.json_response import json_response
from headrace_gateway.services import Services

BASES = ("/v1/agents/{agent}/ag-ui", "/api/agent")
"""Where an agent's AG-UI routes are; the last is the default agent's."""

_NO_STORE = {"Cache-Control": "no-store"}


def routes(services: Services) -> list[Route]:
    """Return the routes of the AG-UI endpoint."""
    endpoint = RunEndpoint(services)
    pages: dict[str, tuple[Endpoint, list[str]]] = {
        "": (endpoint.run, ["POST"]),
        "/": (endpoint.run, ["POST"]),
        "/attach": (endpoint.attach, ["GET", "POST"]),
        "/threads/{thread}": (endpoint.thread, ["GET"]),
    }
    return [
        Route(base + path, answering_refusals(page), methods=methods)
        for base in BASES
        for path, (page, methods) in pages.items()
    ]


class RunEndpoint:
    """Starts runs, and attaches clients to those that there are."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    async def run(self, request: Request) -> ASGIApp:
        """Start the run that the request asks for and return its stream.

        With a cursor the client has been in it before: the stream goes on behind it.

        Raises:
            RunRefused: the request is none for a run.
            A2AError, HeadraceError: as `call_of`, `read_body`, `begin` and `Attaching.to`.
        """
        call = call_of(self._services, request)
        encoding = encoding_for(request)
        check_body_type(request)
        body = await read_body(request, self._services.settings.max_body_bytes)
        asked = RunInput.read(body)

        async def opening() -> ASGIApp:
            if call.cursor and (found := await self._known(call, asked)) is not None:
                return await Attaching(self._services, call, encoding).to(found)
            accepted = await begin(self._services, call, asked)
            frames = RunFrames(accepted.generation)
            streams = self._services.event_streams
            return RunStream(streams, accepted.feed, accepted.log, frames, encoding)

        return await self._services.seats.seated(call.caller, opening)

    async def attach(self, request: Request) -> ASGIApp:
        """Return the stream of a run that has been started: behind a cursor, or as of now.

        Raises:
            RunUnknown: the caller has no such run.
            RunRefused, HeadraceError: as `run`.
        """
        call = call_of(self._services, request)
        encoding = encoding_for(request)
        named = await named_run(request, self._services.settings.max_body_bytes)

        async def opening() -> ASGIApp:
            return await self._attached(call, encoding, named, is_get=request.method == "GET")

        return await self._services.seats.seated(call.caller, opening)

    async def thread(self, request: Request) -> ASGIApp:
        """Return what a thread has come to: its messages, its state, its runs.

        Raises:
            RunUnknown: the caller has no such thread.
            HeadraceError: as `Thread.runs`.
        """
        call = call_of(self._services, request)
        name = request.path_params["thread"]
        past = await self._past(call, name)
        if not past.runs:
            raise RunUnknown(f"there is no thread {name}")
        content: Json = {"threadId": name, "messages": past.messages, "state": past.state}
        return json_response({**content, "runs": past.told_runs()}, headers=_NO_STORE)

    async def _known(self, call: Call, asked: RunInput) -> ThreadRun | None:
        try:
            return await Thread(self._services, call, asked.thread).find(asked.run)
        except RunUnknown:
            # The client lost its connection before the run began.
            return None

    async def _attached(
        self, call: Call, encoding: Encoding, named: NamedRun, *, is_get: bool
    ) -> ASGIApp:
        thread = Thread(self._services, call, named.thread)
        attaching = Attaching(self._services, call, encoding, may_be_nothing=is_get)
        if named.run is not None:
            return await attaching.to(await thread.find(named.run))
        newest = await thread.newest()
        earlier = await past_of(thread, before=newest)
        return await attaching.to(newest, earlier.messages)

    async def _past(self, call: Call, thread: str) -> Past:
        return await past_of(Thread(self._services, call, thread))
