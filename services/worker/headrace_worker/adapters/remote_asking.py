"""Passing an outside agent's question for credentials on to our user, while it is followed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.context import RunContext, runtime_of
from headrace_worker.encoder import hinted


class Asking:
    """At most one question at a time."""

    def __init__(self, ctx: RunContext, timeout: float) -> None:
        """Ask the user of `ctx`, for `timeout` seconds."""
        self._ctx, self._timeout = ctx, timeout
        self._asked: asyncio.Task[Json] | None = None
        self._answer: Json | None = None

    def ask(self, message: Json) -> None:
        """Ask, unless that is being done."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._wait(message))

    async def stop(self) -> None:
        """Ask no more: whoever asked goes on."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await asked

    def answer(self) -> Json | None:
        """Return the user's answer, once."""
        answer, self._answer = self._answer, None
        return answer

    async def beside[T](self, events: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield `events` until they end, or the user has answered.

        Raises:
            TimeoutError: the user was asked, and did not.
        """
        waiting: asyncio.Task[T] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(_next(events))
                both = {waiting, self._asked} if self._asked is not None else {waiting}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if self._asked is not None and self._asked.done():
                    self._answer, self._asked = self._asked.result(), None
                    return
                if waiting.done():
                    came, waiting = waiting, None
                    try:
                        event = came.result()
                    except StopAsyncIteration:
                        return
                    yield event
        finally:
            if waiting is not None:
                waiting.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await waiting

    async def _wait(self, message: Json) -> Json:
        content = [hinted(part, parts.TASK) for part in message.get("parts", [])]
        name = message.get("messageId") or self._ctx.new_id("message")
        prompt = {**message, "messageId": name, "role": "ROLE_AGENT", "parts": content}
        async with asyncio.timeout(self._timeout):
            return await runtime_of(self._ctx).ask(prompt)


async def _next[T](events: AsyncIterator[T]) -> T:
    return await anext(events)
