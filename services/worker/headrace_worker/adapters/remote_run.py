"""One run that an outside agent executes.

The run sends its message once, follows the outside task to its end, and is cancelled together with
it. The log records which outside task belongs to a task. The task's metadata show it to clients
too, but clients and outside agents can also write there. So only the event counts in which an
attempt of this fleet recorded it.

Each of the outside agent's events is emitted once, even if it arrives repeatedly. A stream that
breaks off is reopened and starts with the task's current state: only what is new is emitted.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial

from headrace.jetstream.objects import LINKS_ARE_OURS, is_link
from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.events import Json
from headrace.model.task import AUTH_REQUIRED, RUN_ENDED, WORKING
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Reject
from headrace.sdk.errors import MalformedOutput, Retryable
from headrace.sdk.relayed import Artifact, Outcome, RelayedMessage
from headrace_worker.adapters.a2a_json import artifact_of, json_of, outcome_of, parsed, said_of
from headrace_worker.adapters.busy import is_busy
from headrace_worker.adapters.credentials import AccessRefused
from headrace_worker.adapters.cursors import FOLLOWED, LAST_EVENT_ID, EventIds
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.outside_context import outside_context
from headrace_worker.adapters.remote_client import Remote
from headrace_worker.earlier import asking_agent
from headrace_worker.memory import with_content
from headrace_worker.relayed import foreign, hinted

REMOTE_TASK, REMOTE_CONTEXT = "remote_task", "remote_context"
"""Metadata keys of a task for the ids of the outside task and its context."""


def remote_of(told: Iterable[tuple[int, Json]]) -> tuple[str, str]:
    """Return the ids of the outside task and its context; empty if unknown.

    Clients' metadata are in events of other states. The outside agent's own values for these keys
    are removed (`without_names`).
    """
    found = ("", "")
    for _, event in told:
        update = event.get("statusUpdate", {})
        metadata = update.get("metadata") or {}
        at_work = update.get("status", {}).get("state") == WORKING and CHILD not in metadata
        if at_work and (task := metadata.get(REMOTE_TASK)):
            found = (str(task), str(metadata.get(REMOTE_CONTEXT, "")))
    return found


def without_names(metadata: Json) -> Json:
    """Return an outside agent's metadata without the keys for outside tasks."""
    return {k: v for k, v in metadata.items() if k not in {REMOTE_TASK, REMOTE_CONTEXT}}


class Asking:
    """Requests for credentials, at most one at a time."""

    def __init__(self, ctx: RunContext, timeout: float) -> None:
        """Ask the user of `ctx`, with a limit of `timeout` seconds."""
        self._ctx, self._timeout = ctx, timeout
        self._asked: asyncio.Task[Json] | None = None
        self._answer: Json | None = None

    def ask(self, message: Json) -> None:
        """Send the request unless one is open."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._wait(message))

    async def stop(self) -> None:
        """Withdraw the request: the outside agent continues without it."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await asked

    def answer(self) -> Json | None:
        """Return the user's answer once, then None."""
        answer, self._answer = self._answer, None
        return answer

    async def beside[T](self, events: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield `events` until they end or the user has answered.

        Raises:
            TimeoutError: The user was asked and did not answer in time.
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


_USER = "ROLE_USER"


class Told:
    """What this task's log has of the outside task."""

    def __init__(self, task: Json | None = None) -> None:
        """Start with `task`, this fleet's task after earlier runs."""
        task = task or {}
        self.artifacts = {
            artifact["artifactId"]: _content(artifact.get("parts", []))
            for artifact in task.get("artifacts", [])
        }
        self.messages = {
            message["messageId"]: _content(message.get("parts", []))
            for message in task.get("history", [])
        }
        if last := task.get("status", {}).get("message", {}).get("messageId"):
            self.messages[last] = _content(task["status"]["message"].get("parts", []))


class RemoteEvents:
    """Emits the events of one run."""

    def __init__(self, ctx: RunContext, told: Told) -> None:
        """Emit events in the run of `ctx`, whose log has `told` so far."""
        self._ctx, self._told = ctx, told
        self.task = self.context = ""
        """Ids of the outside task and its context, once known."""
        self.asks: Json | None = None
        """The message with which the outside agent asks for credentials; None if it does not."""
        self.is_over = False
        self.joined = False
        """Whether a stream was reopened without a cursor. Events may then repeat what its first
        snapshot contained; `mend` corrects that from the complete task."""

    async def mend(self, task: Json) -> None:
        """Emit the artifacts of the finished outside task that differ from this task's."""
        _check_links({"task": task})
        for artifact in task.get("artifacts", []):
            await self._whole(artifact)

    async def take(self, event: Json) -> None:
        """Emit an event, a StreamResponse.

        Raises:
            MalformedOutput: The event violates A2A, or links to a file of this fleet.
        """
        _check_links(event)
        if "task" in event:
            await self._snapshot(event["task"])
        elif "message" in event:
            message = event["message"]
            await self._end(Outcome("TASK_STATE_COMPLETED", message.get("parts", [])))
        elif "artifactUpdate" in event:
            self.asks = None
            await self._chunk(event["artifactUpdate"])
        elif "statusUpdate" in event:
            update = event["statusUpdate"]
            self._note(update.get("taskId", ""), update.get("contextId", ""))
            await self._status(
                update.get("status", {}), without_names(foreign(update.get("metadata", {})))
            )

    async def _snapshot(self, task: Json) -> None:
        self._note(task.get("id", ""), task.get("contextId", ""))
        for message in task.get("history", []):
            if message.get("role") != _USER:
                await self._message(message, {}, whole=True)
        for artifact in task.get("artifacts", []):
            await self._whole(artifact)
        await self._status(task.get("status", {}), {}, whole=True)

    def _note(self, task: str, context: str) -> None:
        self.task, self.context = task or self.task, context or self.context

    async def _chunk(self, update: Json) -> None:
        chunk = artifact_of(update)
        known = self._told.artifacts.get(chunk.id)
        if chunk.append and known is None:
            update = {**update, "append": False}
            chunk = artifact_of(update)
        before = (known or "") if chunk.append else ""
        self._told.artifacts[chunk.id] = before + _content(chunk.parts)
        await self._ctx.emit(chunk)

    async def _whole(self, artifact: Json) -> None:
        chunk = artifact_of({"artifact": artifact, "lastChunk": True})
        content, known = _content(chunk.parts), self._told.artifacts.get(chunk.id)
        self._told.artifacts[chunk.id] = content
        if known == content:
            return
        if known and _is_text(chunk.parts) and content.startswith(known):
            rest = {**chunk.parts[-1], "text": content[len(known) :]}
            chunk = Artifact(chunk.id, [rest], append=True)
        await self._ctx.emit(chunk)

    async def _status(self, status: Json, metadata: Json, *, whole: bool = False) -> None:
        state = status.get("state", "")
        message = status.get("message", {})
        if state in RUN_ENDED:
            if not self._is_past(status):
                await self._end(outcome_of(status, metadata))
        elif message.get("role") == _USER:
            return
        elif state == AUTH_REQUIRED:
            self.asks = message
        else:
            if not whole or message:
                self.asks = None
            if message.get("messageId"):
                await self._message(message, metadata, whole=whole)
            elif (said := said_of(status, metadata)) is not None:
                await self._ctx.emit(said)

    def _is_past(self, status: Json) -> bool:
        """Return whether a question is the one that this run's message answers."""
        asked = status.get("message", {}).get("messageId")
        return status.get("state") == "TASK_STATE_INPUT_REQUIRED" and asked in self._told.messages

    async def _message(self, message: Json, metadata: Json, *, whole: bool) -> None:
        name, said = message.get("messageId", ""), message.get("parts", [])
        content, known = _content(said), self._told.messages.get(name)
        if self.joined and known == content:
            return
        if whole and known is not None:
            if not _is_text(said) or not content.startswith(known) or content == known:
                return
            said = [{**said[-1], "text": content[len(known) :]}]
            self._told.messages[name] = content
        else:
            self._told.messages[name] = (known or "") + content
        await self._ctx.emit(RelayedMessage(said, name, metadata))

    async def _end(self, said: Outcome) -> None:
        self.is_over = True
        await self._ctx.emit(said)


def _check_links(event: Json) -> None:
    """Refuse links to this fleet's files, which only the fleet's own agents may send."""
    task = event.get("task", {})
    for holder in (
        event.get("message", {}),
        event.get("artifactUpdate", {}).get("artifact", {}),
        event.get("statusUpdate", {}).get("status", {}).get("message", {}),
        task.get("status", {}).get("message", {}),
        *task.get("artifacts", []),
        *task.get("history", []),
    ):
        for number, part in enumerate(holder.get("parts", [])):
            if is_link(part.get("url")):
                raise MalformedOutput(f"parts[{number}].url {LINKS_ARE_OURS}")


def _is_text(said: object) -> bool:
    return isinstance(said, list) and bool(said) and all("text" in part for part in said)


def _content(said: object) -> str:
    """Return parts for comparison: text, and other parts without their metadata."""
    if not isinstance(said, list):
        return ""
    return "".join(
        part["text"] if "text" in part else repr({k: v for k, v in part.items() if k != "metadata"})
        for part in said
    )


with needs("a2a"):
    import grpc
    import httpx
    from a2a.client.errors import A2AClientError
    from a2a.extensions.common import HTTP_EXTENSION_HEADER
    from a2a.types import SendMessageRequest, StreamResponse
    from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError

type Opening = Callable[[], AsyncIterator[StreamResponse]]
"""Opens a stream, by sending a message or by subscribing to a task."""

_PAUSES = (0.1, 0.3, 1.0, 2.0)
"""Seconds before a stream is reopened; the last value repeats."""

_CANCEL_TIMEOUT = 5.0

UNAUTHORIZED = 401

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

    def __init__(self, ctx: RunContext, remote: Remote, timeouts: Timeouts) -> None:
        """Run the input of `ctx` on `remote`."""
        self._ctx, self._remote, self._timeouts = ctx, remote, timeouts
        self._cursor = EventIds()
        self._relay = RemoteEvents(ctx, Told())
        self._asking = Asking(ctx, timeouts.credentials)
        self._known = ""
        self._renewed = False

    async def run(self) -> None:
        """Send the message, or follow the task that an earlier attempt started.

        Raises:
            Retryable: The agent is busy or unreachable.
        """
        FOLLOWED.set(self._cursor)
        try:
            await self._begin()
        except TaskNotFoundError:
            await self._ctx.emit(Reject("The remote agent no longer has its task."))
        except (A2AError, AccessRefused) as error:
            raise_if_passing(error)
            await self._cancel()
            await self._ctx.emit(Reject(f"The remote agent refused the request: {error}"))
        except TimeoutError:
            await self._cancel()
            await self._ctx.emit(
                Reject("The input or credentials that the remote agent requires were not provided.")
            )
        except Retryable:
            raise
        except Exception:
            # This task fails, so the outside task has no reader any more.
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
        # The same id in each attempt, so that another Headrace accepts the message once.
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
                # Limit the rate for an agent whose streams end at once.
                await asyncio.sleep(max(self._timeouts.poll - (time.monotonic() - opened), 0))
            if tries:
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES)) - 1])
            tries += 1
            stream = self._again() if came else opening()

    def _answering(self, answer: Json) -> Opening:
        relay, number = self._relay, f"{self._ctx.run}-{answer.get('messageId', '')}"
        return partial(self._send, answer, relay.task, relay.context, number)

    def _weigh(self, error: Exception, heard: float) -> None:
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
        if not self._known or time.monotonic() - heard > self._timeouts.reconnecting:
            raise Retryable("the remote agent is busy or unreachable") from error

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
        """Save the outside task's ids for follow-ups and for an attempt that takes over."""
        relay = self._relay
        self._known = relay.task
        named = {REMOTE_TASK: relay.task, REMOTE_CONTEXT: relay.context}
        await self._ctx.emit(RelayedMessage([], metadata=named))
        await self._ctx.checkpoint({**named, "cursor": self._cursor.last})

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
