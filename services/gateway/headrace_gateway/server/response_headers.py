"""Headers that are added to a response after its endpoint has built it."""

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def with_headers(app: ASGIApp, headers: Sequence[tuple[bytes, bytes]]) -> ASGIApp:
    """Return the response `app` with further headers."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer
