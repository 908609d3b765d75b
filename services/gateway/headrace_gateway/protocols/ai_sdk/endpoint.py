"""What the routes of the AI SDK serve: messages to a chat, its stream again, and its stop."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace_gateway.call import Call, admit, admitted_call, call_of
from headrace_gateway.json_errors import check_body_type, check_id
from headrace_gateway.protocols.ai_sdk.chat import AgentChat
from headrace_gateway.protocols.ai_sdk.renderer import FromInput, WholeMessage, message_stream
from headrace_gateway.protocols.ai_sdk.request import ChatRequest
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services


class ChatEndpoint:
    """Serves chats."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    async def send(self, request: Request) -> ASGIApp:
        """Send the user's message, or answers to the agent, and return the stream of the answer."""
        services = self._services
        admission = admit(services, request, "SendStreamingMessage")  # Before the body is read.
        check_body_type(request)
        sent = ChatRequest.read(await read_body(request, services.body_limits))
        call = await admitted_call(services, request, admission, thread=sent.chat)

        async def opening() -> ASGIApp:
            async with await AgentChat(services, call, sent.chat).submit(sent) as accepted:
                beginning = FromInput(accepted.generation)
                return message_stream(services.subscriptions, accepted.held, beginning)

        return await services.stream_limits.with_permit(call.caller, opening)

    async def stream(self, request: Request) -> ASGIApp:
        """Return the chat's newest answer from its start, followed live; 204 if there is none."""
        services, (call, chat) = self._services, await self._named(request, "SubscribeToTask")

        async def opening() -> ASGIApp:
            held = await chat.newest()
            if held is None:
                return Response(status_code=204)
            async with held as feed:
                return message_stream(services.subscriptions, held, WholeMessage(feed.head))

        return await services.stream_limits.with_permit(call.caller, opening)

    async def messages(self, request: Request) -> ASGIApp:
        """Return the chat's messages, for a page that is opened anew."""
        _, chat = await self._named(request, "ListTasks")
        return json_response(await chat.messages(), headers=NO_STORE)

    async def stop(self, request: Request) -> ASGIApp:
        """Cancel what the agent is doing in the chat; answer once the log confirms it."""
        _, chat = await self._named(request, "CancelTask")
        return json_response({"stopped": await chat.stop()}, headers=NO_STORE)

    async def _named(self, request: Request, operation: str) -> tuple[Call, AgentChat]:
        """Return the call of an operation on the chat in the path, and the chat."""
        name = request.path_params["chat"]
        check_id("chat", name)
        call = await call_of(self._services, request, operation, thread=name)
        return call, AgentChat(self._services, call, name)
