"""Adapter for AG-UI agents behind HTTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Unpack

import httpx
import orjson

from headrace.adapters.ag_ui.events import ending_of
from headrace.adapters.ag_ui.input import run_input
from headrace.adapters.ag_ui.names import FINISHED, NamedEvents
from headrace.adapters.busy import is_busy, pause_of
from headrace.adapters.conversation.memory import Memory, check_memory, restored
from headrace.adapters.declaration import ANY_MEDIA, Declaration, declare_card
from headrace.adapters.event_stream import EVENT_STREAM, Frames, check_encoding, field
from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.approvals import ask_again
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Reject
from headrace.sdk.errors import Retryable
from headrace.sdk.signals import State

_STREAM = {
    "Accept": EVENT_STREAM,
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}
_OK = 200


def ag_ui_agent(
    url: str,
    *,
    name: str,
    headers: Mapping[str, str] | None = None,
    connect_timeout: float = 10.0,
    silence: float = 300.0,
    memory: Memory = "context",
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs the AG-UI agent at `url`.

    Each message starts a run of a thread, whose id is derived from tenant, owner, agent and A2A
    context. An AG-UI client's messages, state, tools, context and forwarded properties are passed
    on. For other clients, `memory` selects the messages, and the state is the one that the agent
    last emitted. Messages keep the ids that the agent gave them.

    Args:
        url: The agent's endpoint.
        name: The agent's name in the fleet.
        headers: Headers of each request.
        connect_timeout: Seconds to connect.
        silence: Seconds without data after which a stream is retried. A stream that ends before the
            run is retried too, as `retry` allows.
        memory: How much of the conversation the agent gets.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: As for `agent`.
    """
    check_memory(memory, name)
    declare_card(declared, Card(input_modes=ANY_MEDIA))
    declared.setdefault("description", f"The AG-UI agent at {url}.")
    timeout = httpx.Timeout(silence, connect=connect_timeout)
    tls = httpx.create_ssl_context()

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        held = ctx.checkpoint_data
        if isinstance(held, dict) and FINISHED in held:
            if (ending := ending_of(await restored(ctx, held[FINISHED]))) is not None:
                await ctx.emit(ending)
            return
        try:
            body = await run_input(ctx, memory)
        except AnswerInvalid as error:
            await ask_again(ctx, error)
            return
        if body.get("state", {}) != ctx.state:
            # Later changes of the agent's state are relative to this state.
            await ctx.emit(State(body["state"]))
        async with httpx.AsyncClient(timeout=timeout, verify=tls, headers=headers) as http:
            stream = http.stream("POST", url, content=json_text.encode(body), headers=_STREAM)
            await _relay(ctx, stream)

    return run


async def _relay(ctx: RunContext, stream: AbstractAsyncContextManager[httpx.Response]) -> None:
    """Emit what the agent sends in `stream`.

    Raises:
        Retryable: The agent is busy or unreachable, or its stream ends before the run.
    """
    keeping = NamedEvents(ctx)
    try:
        async with stream as response:
            check_encoding(response.headers)
            if await _is_refused(ctx, response):
                return
            async for event in _events(response):
                await keeping.relay(event)
    except httpx.TransportError as error:
        raise Retryable("the AG-UI agent is unreachable") from error
    await keeping.end()


async def _is_refused(ctx: RunContext, response: httpx.Response) -> bool:
    status = response.status_code
    if is_busy(status):
        after = pause_of(response.headers)
        raise Retryable(f"the AG-UI agent answered {status}", after)
    if status == _OK:
        return False
    ctx.log.warning("the AG-UI agent: %s", (await anext(response.aiter_bytes(), b""))[:500])
    await ctx.emit(Reject(f"The AG-UI agent refused the run ({status})."))
    return True


async def _events(response: httpx.Response) -> AsyncIterator[Json]:
    """Yield the events of a stream of server-sent events.

    Raises:
        Retryable: A frame is not a valid event.
        MalformedOutput: A frame is too large.
    """
    frames = Frames()
    async for chunk in response.aiter_bytes():
        for frame in frames.split(chunk):
            if (data := field(frame, b"data")) is not None:
                yield _parsed(data)


def _parsed(data: bytes) -> Json:
    try:
        event: Any = json_text.decode_foreign(data, keep_halves=True)
    except orjson.JSONDecodeError as error:
        raise Retryable("the AG-UI agent sent invalid JSON") from error
    if not isinstance(event, dict):
        raise Retryable("the AG-UI agent sent an invalid event")
    return event
