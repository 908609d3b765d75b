"""One run that an outside agent works on: asked once, followed to its end, cancelled with ours."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial

from headrace.model.events import Json
from headrace.model.task import RUN_ENDED
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Reject
from headrace.sdk.errors import Retryable
from headrace.sdk.relayed import Said
from headrace_worker.adapters.a2a_json import json_of, parsed
from headrace_worker.adapters.busy import is_busy
from headrace_worker.adapters.credentials import AccessRefused
from headrace_worker.adapters.cursors import FOLLOWED, LAST_EVENT_ID, EventIds
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.outside_context import outside_context
from headrace_worker.adapters.remote_asking import Asking
from headrace_worker.adapters.remote_client import Remote
from headrace_worker.adapters.remote_names import REMOTE_CONTEXT, REMOTE_TASK, remote_of
from headrace_worker.adapters.remote_telling import RemoteEvents, Told
from headrace_worker.earlier import asking_agent
from headrace_worker.remembering import with_content

with needs("a2a"):
    import grpc
    import httpx
    from a2a.client.errors import A2AClientError
    from a2a.extensions.common import HTTP_EXTENSION_HEADER
    from a2a.types import SendMessageRequest, StreamResponse
    from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError

type Opening = Callable[[], AsyncIterator[StreamResponse]]
"""Opens a stream: by a message, or by coming back to a task."""

_PAUSES = (0.1, 0.3, 1.0, 2.0)
"""Seconds before a stream is opened anew; the last one again and again."""
_CANCEL_TIMEOUT = 5.0
UNAUTHORIZED = 401
_LATER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED}


@dataclass(frozen=True)
class Timeouts:
    """How long an outside agent is waited for."""

    reconnecting: float
    """Seconds for which a task out of reach is asked for, before the attempt is given up."""
    credentials: float
    """Seconds for which a user is waited for whose credentials it asks for."""
    poll: float
    """Seconds between questions, where it does not stream."""


class RemoteRun:
    """One attempt."""

    def __init__(self, ctx: RunContext, remote: Remote, timeouts: Timeouts) -> None:
        """Have `remote` do what `ctx` asks for."""
        self._ctx, self._remote, self._timeouts = ctx, remote, timeouts
        self._cursor = EventIds()
        self._relay = RemoteEvents(ctx, Told())
        self._asking = Asking(ctx, timeouts.credentials)
        self._known = ""
        self._renewed = False

    async def run(self) -> None:
        """Ask, or go on with what an attempt before this one has asked.

        Raises:
            Retryable: the agent is busy or out of reach.
        """
        FOLLOWED.set(self._cursor)
        try:
            await self._begin()
        except TaskNotFoundError:
            await self._ctx.emit(Reject("The outside agent does not know its task any more."))
        except (A2AError, AccessRefused) as error:
            raise_if_passing(error)
            await self._cancel()
            await self._ctx.emit(Reject(f"The outside agent refused: {error}"))
        except TimeoutError:
            await self._cancel()
            await self._ctx.emit(Reject("Nobody brought what the outside agent asked for."))
        except Retryable:
            raise
        except Exception:
            # Our task fails: nobody will hear what it says from now on.
            await self._cancel()
            raise
        finally:
            await self._asking.stop()
            if self._ctx.is_stopped and self._relay.task and not self._relay.is_over:
                await self._cancel()

    async def _begin(self) -> None:
        ctx, held = self._ctx, self._ctx.checkpoint_data
        goes_on = isinstance(held, dict) and bool(held.get(REMOTE_TASK))
        ours = await ctx.load_task() if ctx.run > 1 or goes_on else {}
        self._relay = RemoteEvents(ctx, Told(ours))
        if goes_on:
            self._known = self._relay.task = held[REMOTE_TASK]
            self._cursor.last = self._cursor.came = held.get("cursor", "")
            await self._follow(self._again)
            return
        log = await ctx.load_events() if ctx.run > 1 else []
        task, context = remote_of(log)
        if not context:
            begun = log[0][1].get("task", {}) if log else {"metadata": ctx.metadata}
            context = outside_context(ctx, asking_agent(begun))
        await self._follow(partial(self._send, ctx.message, task, context, str(ctx.run)))

    async def _send(
        self, message: Json, task: str, context: str, number: str
    ) -> AsyncIterator[StreamResponse]:
        # The same for each attempt: another Headrace then takes it once.
        name = f"{self._ctx.task}-{number}"
        ids = {"messageId": name, "contextId": context, **({"taskId": task} if task else {})}
        ctx = self._ctx
        kept = {k: v for k, v in message.items() if k in {"metadata", "extensions"}}
        content = await with_content(ctx, message.get("parts", []))
        asked: Json = {
            "message": {**kept, **ids, "role": "ROLE_USER", "parts": content},
            "metadata": {k: v for k, v in ctx.metadata.items() if not k.startswith("headrace.")},
        }
        if modes := ctx.accepted_output_modes:
            asked["configuration"] = {"acceptedOutputModes": modes}
        headers = {"Idempotency-Key": name}
        if ctx.extensions:
            headers[HTTP_EXTENSION_HEADER] = ", ".join(ctx.extensions)
        request = parsed(asked, SendMessageRequest())
        async with aclosing(self._remote.send(request, headers)) as stream:  # type: ignore[type-var]  # it is a generator
            async for event in stream:
                yield event

    async def _again(self) -> AsyncIterator[StreamResponse]:
        """Yield what has happened in the task since it was last heard of, and what does."""
        task, last = self._relay.task, self._cursor.last
        if not task:
            raise Retryable("the outside agent said nothing")
        if await self._remote.streams():
            headers: Mapping[str, str] = {LAST_EVENT_ID: last} if last else {}
            self._relay.joined = self._relay.joined or not last
            came = False
            try:
                async with aclosing(self._remote.subscribe(task, headers)) as stream:  # type: ignore[type-var]  # it is a generator
                    async for event in stream:
                        came = True
                        yield event
            except A2AError as error:
                if isinstance(error, A2AClientError | InternalError):
                    raise
                # It is over, or can't be subscribed to: asked for it still tells.
            if came:
                return
        await asyncio.sleep(0 if last else self._timeouts.poll)
        yield StreamResponse(task=await self._remote.get(task))

    async def _follow(self, opening: Opening) -> None:
        stream, heard, tries, came = opening(), time.monotonic(), 0, False
        while True:
            opened = time.monotonic()
            try:
                async with aclosing(stream) as events:  # type: ignore[type-var]  # it is a generator
                    async for event in self._asking.beside(events):
                        heard, tries, came = time.monotonic(), 0, True
                        if await self._take(event):
                            return
            except (A2AError, httpx.HTTPError) as error:
                self._weigh(error, heard)
            if (answer := self._asking.answer()) is not None:
                opening, tries, came = self._answering(answer), 0, False
            else:
                # An agent whose streams end at once is not asked all the time.
                await asyncio.sleep(max(self._timeouts.poll - (time.monotonic() - opened), 0))
            if tries:
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES)) - 1])
            tries += 1
            stream = self._again() if came else opening()

    def _answering(self, answer: Json) -> Opening:
        relay, number = self._relay, f"{self._ctx.run}-{answer.get('messageId', '')}"
        return partial(self._send, answer, relay.task, relay.context, number)

    def _weigh(self, error: Exception, heard: float) -> None:
        """Return where another try makes sense.

        Raises:
            Exception: `error`, or Retryable, where it does not.
        """
        credentials = self._remote.place.credentials
        if status_of(error) == UNAUTHORIZED and credentials is not None and not self._renewed:
            self._renewed = True
            credentials.forget()
            return
        if not is_passing(error):
            raise error
        if not self._known or time.monotonic() - heard > self._timeouts.reconnecting:
            raise Retryable("the outside agent is busy or unreachable") from error

    async def _take(self, event: StreamResponse) -> bool:
        relay, told = self._relay, json_of(event)
        if (
            relay.joined
            and told.get("statusUpdate", {}).get("status", {}).get("state") in RUN_ENDED
        ):
            with suppress(A2AError, httpx.HTTPError):
                await relay.mend(json_of(await self._remote.get(relay.task)))
        await relay.take(told)
        self._cursor.told()
        if relay.task and not self._known and not relay.is_over:
            await self._remember()
        if relay.asks is not None:
            self._asking.ask(relay.asks)
        else:
            await self._asking.stop()
        return relay.is_over

    async def _remember(self) -> None:
        """Keep which task it is, for follow-ups and for an attempt that takes over."""
        relay = self._relay
        self._known = relay.task
        named = {REMOTE_TASK: relay.task, REMOTE_CONTEXT: relay.context}
        await self._ctx.emit(Said([], metadata=named))
        await self._ctx.checkpoint({**named, "cursor": self._cursor.last})

    async def _cancel(self) -> None:
        if not self._relay.task or self._relay.is_over:
            return
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self._remote.cancel(self._relay.task)
        except (A2AError, httpx.HTTPError, TimeoutError) as error:
            self._ctx.log.warning("the outside agent did not confirm the cancel: %s", error)


def raise_if_passing(error: Exception) -> None:
    """Have the run tried again if it may go better then.

    Raises:
        Retryable: it may.
    """
    if is_passing(error):
        raise Retryable("the outside agent is busy or unreachable") from error


def is_passing(error: BaseException) -> bool:
    """Tell whether an error says that somebody is busy, or out of reach."""
    if isinstance(error, InternalError | httpx.TransportError):
        return True
    if not isinstance(error, A2AClientError):
        return False
    status, cause = status_of(error), error.__cause__
    if isinstance(cause, grpc.aio.AioRpcError):
        return cause.code() in _LATER
    return is_busy(status) if status else isinstance(cause, httpx.RequestError)


def status_of(error: BaseException) -> int:
    """Return the HTTP status behind an error; 0: there is none."""
    cause = error.__cause__
    return cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else 0
