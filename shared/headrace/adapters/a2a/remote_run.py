"""One run that an outside agent executes.

The run sends its message once, follows the outside task to its end, and is cancelled together with
it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial

import grpc
import httpx
from a2a.client.errors import A2AClientError
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.types import SendMessageRequest, StreamResponse
from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError

from headrace.adapters.a2a.credentials import AccessRefused
from headrace.adapters.a2a.cursors import FOLLOWED, LAST_EVENT_ID, EventIds
from headrace.adapters.a2a.protojson import json_of, parsed, prompt_of
from headrace.adapters.a2a.remote_client import Remote
from headrace.adapters.a2a.remote_events import (
    REMOTE_CONTEXT,
    REMOTE_TASK,
    EmittedContent,
    RemoteEvents,
    remote_of,
)
from headrace.adapters.busy import is_busy
from headrace.adapters.conversation.memory import with_content
from headrace.adapters.outside_context import outside_context
from headrace.adapters.questions.answers import MemoryLost, question_in
from headrace.adapters.questions.approvals import repeated
from headrace.background import cancelled
from headrace.model.delegation import asking_agent
from headrace.model.events import Json
from headrace.model.task import RUN_ENDED
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Ending, Reject, RelayedMessage
from headrace.sdk.errors import Retryable, is_of_fleet
from headrace.sdk.policy import Retry


class CredentialRequests:
    """Requests for credentials, at most one at a time."""

    def __init__(self, ctx: RunContext, timeout: float) -> None:
        """Ask the user of `ctx`, with a limit of `timeout` seconds."""
        self._ctx, self._timeout = ctx, timeout
        self._waiting: asyncio.Task[Json] | None = None
        self._answer: Json | None = None

    def ask(self, message: Json) -> None:
        """Send the request unless one is open."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._wait(message))

    async def stop(self) -> None:
        """Withdraw the request: the outside agent continues without it."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            await cancelled(waiting)

    def answer(self) -> Json | None:
        """Return the user's answer once, then None."""
        answer, self._answer = self._answer, None
        return answer

    async def until_answered[T](self, events: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield `events` until they end or the user has answered.

        Raises:
            TimeoutError: The user was asked and did not answer in time.
        """
        waiting: asyncio.Task[T] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(_next(events))
                both = {waiting, self._waiting} if self._waiting is not None else {waiting}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if self._waiting is not None and self._waiting.done():
                    self._answer, self._waiting = self._waiting.result(), None
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
                await cancelled(waiting)

    async def _wait(self, message: Json) -> Json:
        async with asyncio.timeout(self._timeout):
            return await runtime_of(self._ctx).inputs.ask(prompt_of(self._ctx, message))


async def _next[T](events: AsyncIterator[T]) -> T:
    return await anext(events)


type OpenStream = Callable[[], AsyncIterator[StreamResponse]]
"""Opens a stream, by sending a message or by subscribing to a task."""

_PAUSES = (0.1, 0.3, 1.0, 2.0)
"""Seconds before a stream is reopened; the last value repeats."""

_CANCEL_TIMEOUT = 5.0

UNAUTHORIZED = 401

_TASK_LOST = MemoryLost(
    "the remote agent does not know its task; have its replicas share one task store, and keep its "
    "tasks for as long as they wait"
)

_LATER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED}


@dataclass(frozen=True)
class Timeouts:
    """Time limits for an outside agent."""

    reconnecting: float
    """Seconds for which an unreachable task is retried before the attempt ends."""
    credentials: float
    """Seconds to wait for the user to provide credentials."""
    poll: float
    """Seconds between polls of an agent that does not stream."""


class RemoteRun:
    """One attempt of a run that an outside agent executes."""

    def __init__(self, ctx: RunContext, remote: Remote, timeouts: Timeouts, retry: Retry) -> None:
        """Run the input of `ctx` on `remote`, for an agent with `retry`."""
        self._ctx, self._remote, self._timeouts = ctx, remote, timeouts
        self._retry = retry
        self._cursor = EventIds()
        self._relay = RemoteEvents(ctx, EmittedContent())
        self._asking = CredentialRequests(ctx, timeouts.credentials)
        self._known = ""
        self._renewed = False

    async def run(self) -> None:
        """Send the message, or follow the task that an earlier attempt started.

        Raises:
            Retryable: The agent is busy or unreachable.
            Exception: An error that the agent's retry names.
        """
        FOLLOWED.set(self._cursor)
        try:
            await self._begin()
        except TaskNotFoundError:
            await self._ctx.emit(await self._without_task())
        except (A2AError, AccessRefused) as error:
            if self._retry.reason(error) is not None:
                raise
            raise_if_passing(error)
            await self._cancel()
            await self._ctx.emit(Reject(f"The remote agent refused the request: {error}"))
        except TimeoutError:
            await self._cancel()
            await self._ctx.emit(
                Reject("The input or credentials that the remote agent requires were not provided.")
            )
        except Exception as error:
            # If this task fails, the outside task has no reader any more.
            if not is_of_fleet(error) and self._retry.reason(error) is None:
                await self._cancel()
            raise
        finally:
            await self._asking.stop()
            if self._ctx.is_stopped and self._relay.task and not self._relay.is_over:
                await self._cancel()

    async def _begin(self) -> None:
        ctx, held = self._ctx, self._ctx.checkpoint_data
        # A fork's checkpoint may be its source's, whose outside task it leaves alone.
        continues = isinstance(held, dict) and held.get("task") == ctx.task
        ours = await ctx.load_task() if ctx.run > 1 or continues else {}
        self._relay = RemoteEvents(ctx, EmittedContent(ours))
        if continues:
            self._known = self._relay.task = held[REMOTE_TASK]
            self._cursor.last = self._cursor.came = held.get("cursor", "")
            await self._follow(self._again)
            return
        log = await ctx.load_events() if ctx.run > 1 else []
        task, context = remote_of(log)
        if not context:
            first_task = log[0][1].get("task", {}) if log else {"metadata": ctx.metadata}
            context = outside_context(ctx, asking_agent(first_task))
        await self._follow(partial(self._send, ctx.message, task, context, str(ctx.run)))

    async def _without_task(self) -> Ending:
        """Return how the run ends whose outside task is unknown there: an open question stays."""
        log = await self._ctx.load_events() if self._ctx.run > 1 and not self._known else []
        question = question_in(log, self._ctx.run)
        if question is None:
            return Reject("The remote agent no longer has its task.")
        self._ctx.log.warning("the answer was not used: %s", _TASK_LOST)
        return repeated(question, _TASK_LOST)

    async def _send(
        self, message: Json, task: str, context: str, number: str
    ) -> AsyncIterator[StreamResponse]:
        # The same id in each attempt, so that another Headrace accepts the message once.
        name = f"{self._ctx.task}-{number}"
        ids = {"messageId": name, "contextId": context, **({"taskId": task} if task else {})}
        ctx = self._ctx
        kept = {k: v for k, v in message.items() if k in {"metadata", "extensions"}}
        content = await with_content(ctx, message.get("parts", []))
        body: Json = {
            "message": {**kept, **ids, "role": "ROLE_USER", "parts": content},
            "metadata": {k: v for k, v in ctx.metadata.items() if not k.startswith("headrace.")},
        }
        if modes := ctx.accepted_output_modes:
            body["configuration"] = {"acceptedOutputModes": modes}
        headers = {"Idempotency-Key": name}
        if ctx.extensions:
            headers[HTTP_EXTENSION_HEADER] = ", ".join(ctx.extensions)
        request = parsed(body, SendMessageRequest())
        async with aclosing(self._remote.send(request, headers)) as stream:  # type: ignore[type-var]  # it is a generator
            async for event in stream:
                yield event

    async def _again(self) -> AsyncIterator[StreamResponse]:
        """Yield the task's events since the last one received."""
        task, last = self._relay.task, self._cursor.last
        if not task:
            raise Retryable("the remote agent sent no events")
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
                # The task is over or can't be subscribed to, but may still be readable.
            if came:
                return
        await asyncio.sleep(0 if last else self._timeouts.poll)
        yield StreamResponse(task=await self._remote.get(task))

    async def _follow(self, opening: OpenStream) -> None:
        stream, last_event, tries, came = opening(), time.monotonic(), 0, False
        while True:
            opened = time.monotonic()
            try:
                async with aclosing(stream) as events:  # type: ignore[type-var]  # it is a generator
                    async for event in self._asking.until_answered(events):
                        last_event, tries, came = time.monotonic(), 0, True
                        if await self._relay_event(event):
                            return
            except (A2AError, httpx.HTTPError) as error:
                self._check_retry(error, last_event)
            if (answer := self._asking.answer()) is not None:
                opening, tries, came = self._answering(answer), 0, False
            else:
                # Limit the rate for an agent whose streams end at once.
                await asyncio.sleep(max(self._timeouts.poll - (time.monotonic() - opened), 0))
            if tries:
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES)) - 1])
            tries += 1
            stream = self._again() if came else opening()

    def _answering(self, answer: Json) -> OpenStream:
        relay, number = self._relay, f"{self._ctx.run}-{answer.get('messageId', '')}"
        return partial(self._send, answer, relay.task, relay.context, number)

    def _check_retry(self, error: Exception, last_event: float) -> None:
        """Return if a retry makes sense, else raise an error.

        Raises:
            Exception: `error`, or Retryable, if another try makes no sense now.
        """
        credentials = self._remote.place.credentials
        if status_of(error) == UNAUTHORIZED and credentials is not None and not self._renewed:
            self._renewed = True
            credentials.forget()
            return
        if not is_passing(error):
            raise error
        if not self._known or time.monotonic() - last_event > self._timeouts.reconnecting:
            raise Retryable("the remote agent is busy or unreachable") from error

    async def _relay_event(self, event: StreamResponse) -> bool:
        relay, event_json = self._relay, json_of(event)
        if (
            relay.joined
            and event_json.get("statusUpdate", {}).get("status", {}).get("state") in RUN_ENDED
        ):
            with suppress(A2AError, httpx.HTTPError):
                await relay.repair(json_of(await self._remote.get(relay.task)))
        await relay.pass_on(event_json)
        self._cursor.emitted()
        if relay.task and not self._known and not relay.is_over:
            await self._remember()
        if relay.asks is not None:
            self._asking.ask(relay.asks)
        else:
            await self._asking.stop()
        return relay.is_over

    async def _remember(self) -> None:
        """Save the outside task's ids for follow-ups and for an attempt that takes over."""
        relay = self._relay
        self._known = relay.task
        named = {REMOTE_TASK: relay.task, REMOTE_CONTEXT: relay.context}
        await self._ctx.emit(RelayedMessage([], metadata=named))
        await self._ctx.checkpoint({**named, "task": self._ctx.task, "cursor": self._cursor.last})

    async def _cancel(self) -> None:
        if not self._relay.task or self._relay.is_over:
            return
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self._remote.cancel(self._relay.task)
        except (A2AError, httpx.HTTPError, TimeoutError) as error:
            self._ctx.log.warning("the remote agent did not confirm the cancellation: %s", error)


def raise_if_passing(error: Exception) -> None:
    """Raise Retryable for a temporary error.

    Raises:
        Retryable: `error` is temporary.
    """
    if is_passing(error):
        raise Retryable("the remote agent is busy or unreachable") from error


def is_passing(error: BaseException) -> bool:
    """Return whether an error means that the agent is busy or unreachable."""
    if isinstance(error, InternalError | httpx.TransportError):
        return True
    if not isinstance(error, A2AClientError):
        return False
    status, cause = status_of(error), error.__cause__
    if isinstance(cause, grpc.aio.AioRpcError):
        return cause.code() in _LATER
    return is_busy(status) if status else isinstance(cause, httpx.RequestError)


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error's cause; 0 if it has none."""
    cause = error.__cause__
    return cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else 0
