"""What the routes of OpenAI's API serve."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp

from headrace.log import last_entry
from headrace.model.errors import TaskUnknown
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace_gateway.call import Call, call_of, callable_agents, caller_of
from headrace_gateway.json_errors import read_object
from headrace_gateway.outcome import map_errors, wait_for
from headrace_gateway.protocols.openai.chat import ChunkRenderer, completion, has_failed
from headrace_gateway.protocols.openai.errors import RequestInvalid, ResponseUnknown, RunFailed
from headrace_gateway.protocols.openai.ids import RunPlace
from headrace_gateway.protocols.openai.request import AgentRequest
from headrace_gateway.protocols.openai.response import (
    Collector,
    ResponseRenderer,
    input_items,
    response_object,
)
from headrace_gateway.protocols.openai.response_output import ResponseOutput
from headrace_gateway.protocols.openai.submit import submit
from headrace_gateway.refusals import AgentUnknown, TaskEnded
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.submission import AcceptedInput
from headrace_gateway.tasks.subscribe import OpenedLog

_SEND = "SendStreamingMessage"

_CHAT = "x-openwebui-chat-id"
"""Header of a chat's id, as Open WebUI sends it where it forwards its users' data."""


class OpenAIEndpoint:
    """Serves agents as models."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    async def models(self, request: Request) -> ASGIApp:
        """Return the list of the agents that the caller may call."""
        found = [_model(name) for name in self._names(request)]
        return json_response({"object": "list", "data": found}, headers=NO_STORE)

    async def model(self, request: Request) -> ASGIApp:
        """Return one of them."""
        name = request.path_params["agent"]
        if name not in self._names(request):
            raise AgentUnknown.called(name, at_root=False)
        return json_response(_model(name), headers=NO_STORE)

    def _names(self, request: Request) -> list[str]:
        return [card.name for card in callable_agents(self._services, request, _SEND)]

    async def respond(self, request: Request) -> ASGIApp:
        """Begin a response, and return it when it has ended, at once, or as a stream."""
        asked = AgentRequest.of_response(await self._body(request))
        call = await self._call(request, asked)
        if asked.stream:
            return await self._stream(call, asked)
        return json_response(response_object(await self._output(call, asked)))

    async def complete(self, request: Request) -> ASGIApp:
        """Return a chat completion, whole or as a stream."""
        body = await self._body(request)
        asked = AgentRequest.of_completion(body, request.headers.get(_CHAT))
        call = await self._call(request, asked)
        if asked.stream:
            return await self._chunks(call, asked)
        output = await self._output(call, asked, stops=True)
        if has_failed(output):
            raise RunFailed(output.error)
        return json_response(completion(output))

    async def response(self, request: Request) -> ASGIApp:
        """Return a response as it is now, or its stream after an event."""
        call, place = await self._named(request, "SubscribeToTask")
        query = request.query_params
        if query.get("stream", "").lower() != "true":
            return json_response(response_object(await self._known(call, place)), headers=NO_STORE)
        after = _number(query.get("starting_after"))

        async def opening() -> ASGIApp:
            async with self._log(call, place) as opened:
                renderer = ResponseRenderer(ResponseOutput(place), after)
                held = opened.held.hand_over()
                return HttpStream(self._services.subscriptions, held, place.run - 1, renderer)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def input_items(self, request: Request) -> ASGIApp:
        """Return what the client of a response has said."""
        call, place = await self._named(request, "SubscribeToTask")
        return json_response(input_items(await self._known(call, place)), headers=NO_STORE)

    async def cancel(self, request: Request) -> ASGIApp:
        """Cancel a response; return it once its log has ended, or as it had ended before."""
        call, place = await self._named(request, "CancelTask")
        known, key = await self._known(call, place), self._key(call, place)
        last = await last_entry(self._services.bus, key)
        if last is None or last.stamp.run != place.run:
            return json_response(response_object(known))  # Its task has gone on with another one.
        with suppress(TaskEnded):
            await self._services.canceler.cancel(call.caller, key)
        return json_response(response_object(await self._known(call, place)))

    async def delete(self, request: Request) -> ASGIApp:
        """Delete a response, and all others of its task."""
        call, place = await self._named(request, "DeleteTask")
        await self._known(call, place)
        try:
            await self._services.deleter.delete(call.caller, self._key(call, place))
        except TaskUnknown:
            raise ResponseUnknown(place.response) from None
        return json_response({"id": place.response, "object": "response", "deleted": True})

    async def _body(self, request: Request) -> Json:
        caller_of(self._services, request)  # Before the body is read.
        return await read_object(request, self._services.body_limits)

    async def _call(self, request: Request, asked: AgentRequest) -> Call:
        request.path_params["agent"] = asked.agent
        context = {} if asked.context is None else {"context": asked.context}
        return await call_of(self._services, request, _SEND, **context)

    async def _named(self, request: Request, operation: str) -> tuple[Call, RunPlace]:
        """Return the call of an operation on the response in the path, and its place."""
        caller_of(self._services, request)
        given = request.path_params["response"]
        place = RunPlace.of_response(given)
        if place is None or self._services.directory.card(place.agent) is None:
            raise ResponseUnknown(given)
        request.path_params["agent"] = place.agent
        return await call_of(self._services, request, operation, task=place.task), place

    def _key(self, call: Call, place: RunPlace) -> TaskKey:
        return task_key(self._services.settings, call.caller, place.agent, place.task)

    @asynccontextmanager
    async def _log(self, call: Call, place: RunPlace) -> AsyncIterator[OpenedLog]:
        """Open the log of a response, from its input on.

        Raises:
            ResponseUnknown: the caller has no such response.
            LogLost, StateUnavailable, BusUnavailable: it can't be read.
        """
        try:
            key = self._key(call, place)
            opened = await self._services.task_streams.open_log(call.caller, key, place.run - 1)
        except TaskUnknown:
            raise ResponseUnknown(place.response) from None
        async with opened:
            blocks = await opened.feed.reader(place.run - 1).read_now()
            if not blocks or blocks[0].entry.stamp.run != place.run:
                raise ResponseUnknown(place.response)
            yield opened

    async def _known(self, call: Call, place: RunPlace) -> ResponseOutput:
        """Return the output of a response as it is now."""
        output = ResponseOutput(place)
        async with self._log(call, place) as opened:
            reader = opened.feed.reader(place.run - 1)
            while not output.over and (blocks := await reader.read_now()):
                for block in blocks:
                    output.read(block.entry)
        return output

    async def _stream(self, call: Call, asked: AgentRequest) -> ASGIApp:
        async def opening() -> ASGIApp:
            async with await submit(self._services, call, asked) as accepted:
                place = _place(accepted)
                renderer = ResponseRenderer(ResponseOutput(place))
                held = accepted.held.hand_over()
                return HttpStream(self._services.subscriptions, held, place.run - 1, renderer)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def _chunks(self, call: Call, asked: AgentRequest) -> ASGIApp:
        async def opening() -> ASGIApp:
            async with await submit(self._services, call, asked) as accepted:
                place, output = _place(accepted), ResponseOutput(_place(accepted))
                renderer = ChunkRenderer(output, with_usage=asked.with_usage)
                held, shared = accepted.held.hand_over(), self._services.subscriptions
                stream = HttpStream(shared, held, place.run - 1, renderer)
                # It can neither come back nor cancel the run in another way.
                stream.left = partial(self._stop_soon, call, accepted.key)
                return stream

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def _output(
        self, call: Call, asked: AgentRequest, *, stops: bool = False
    ) -> ResponseOutput:
        """Accept a request, and return its output at its end or, in the background, at once.

        Raises:
            ClientDisconnect: the client has disconnected; the run is canceled if that `stops` it.
            Unanswered: the log can't be read now, and the run goes on.
            A2AError, HeadraceError: as `submit`.
        """
        services = self._services
        async with await submit(services, call, asked) as accepted:
            output = ResponseOutput(_place(accepted))
            is_enough = (lambda: bool(output.begun)) if asked.background else (lambda: False)
            collector = Collector(output, is_enough)
            try:
                with map_errors(call, accepted):
                    await wait_for(services, call, accepted, collector, accepted.generation - 1)
            except ClientDisconnect:
                if stops:
                    self._stop_soon(call, accepted.key)
                raise
            return output

    def _stop_soon(self, call: Call, key: TaskKey) -> None:
        self._services.background.start(self._stop(call, key))

    async def _stop(self, call: Call, key: TaskKey) -> None:
        with suppress(TaskEnded, TaskUnknown):
            await self._services.canceler.cancel(call.caller, key)


def _place(accepted: AcceptedInput) -> RunPlace:
    return RunPlace(accepted.key.agent, accepted.key.task, accepted.generation)


def _number(given: str | None) -> int:
    """Return the number of the event after which a stream goes on; -1 for its beginning."""
    if not given:
        return -1
    if not (given.isascii() and given.isdecimal()) or len(given) > len(str(10**15)):
        raise RequestInvalid("starting_after", "must be the sequence number of an event")
    return int(given)


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "headrace"}
