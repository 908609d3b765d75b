"""Adapter for outside A2A agents."""

import logging
from collections.abc import Mapping, Sequence
from typing import Unpack

import httpx
from a2a.utils.errors import A2AError

from headrace.adapters.a2a.cards import declare_as, name_of
from headrace.adapters.a2a.credentials import AccessRefused, Credentials
from headrace.adapters.a2a.protojson import json_of
from headrace.adapters.a2a.remote_client import BINDINGS, Place, Remote, read_card
from headrace.adapters.a2a.remote_events import remote_of
from headrace.adapters.a2a.remote_run import (
    UNAUTHORIZED,
    RemoteRun,
    Timeouts,
    raise_if_passing,
    status_of,
)
from headrace.adapters.declaration import Declaration
from headrace.model.events import Json
from headrace.sdk.agent import Agent, EndedTask, agent
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Misdeclared, Retryable


async def cancel_left(ended: EndedTask, remote: Remote) -> None:
    """Cancel the outside agent's task that `ended` was relaying, if any.

    Raises:
        Retryable: The agent is busy or unreachable, or needs a new token.
    """
    task, _ = remote_of(ended.events)
    if not task:
        return
    try:
        await remote.cancel(task)
    except (A2AError, httpx.HTTPError, AccessRefused) as error:
        credentials = remote.place.credentials
        if status_of(error) == UNAUTHORIZED and credentials is not None:
            credentials.forget()
            raise Retryable("the remote agent refused the token") from error
        raise_if_passing(error)
        _log.info("task %s: %s could not be canceled: %s", ended.key.task, task, error)


_log = logging.getLogger(__name__)


def remote_agent(  # noqa: PLR0913  # the adapter's options
    url: str,
    *,
    name: str = "",
    binding: str = "",
    credentials: Credentials | None = None,
    headers: Mapping[str, str] | None = None,
    connect_timeout: float = 10.0,
    silence: float = 60.0,
    reconnecting: float = 30.0,
    auth_timeout: float = 300.0,
    poll: float = 1.0,
    secure_grpc: bool = False,
    card_timeout: float = 5.0,
    origins: Sequence[str] = (),
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs the A2A agent at `url`.

    The card is read at once. Its name, description, version, skills and media types apply unless
    they are given here. With a `name`, the agent is served even while its card can't be read.

    Args:
        url: The agent's URL, below which its card is.
        name: The agent's name in the fleet; by default, the card's.
        binding: ``JSONRPC``, ``HTTP+JSON`` or ``GRPC``; by default, the card's first supported one.
        credentials: An `ApiKey`, a `Bearer` or `ClientCredentials`.
        headers: Headers of each request.
        connect_timeout: Seconds to connect.
        silence: Seconds without data after which a stream is reopened.
        reconnecting: Seconds for which an unreachable task is retried before it is left to another
            attempt, which follows it and does not send the message again.
        auth_timeout: Seconds for the user to provide credentials that the agent asks for.
        poll: Seconds between polls of an agent that does not stream.
        secure_grpc: Whether gRPC always uses TLS.
        card_timeout: Seconds to read the card; 0 to skip it.
        origins: URLs of further origins at which the card may name interfaces. They get
            `credentials` and `headers`, too.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: The card can't be read and no `name` is given, the binding is unknown, or as
            for `agent`.
    """
    bindings = (binding,) if binding else BINDINGS
    if not set(bindings) <= set(BINDINGS):
        raise Misdeclared(f"unknown binding {binding!r}; allowed: {', '.join(BINDINGS)}")
    place = Place(
        url.rstrip("/"),
        bindings,
        credentials,
        headers or {},
        connect_timeout,
        silence,
        secure_grpc,
        tuple(origins),
    )
    own = _card(place, card_timeout, is_needed=not name) if card_timeout > 0 else {}
    declare_as(declared, own)
    remote, timeouts = Remote(place), Timeouts(reconnecting, auth_timeout, poll)

    async def clean_up(ended: EndedTask) -> None:
        async with remote.used():
            await cancel_left(ended, remote)

    @agent(name=name or name_of(own), clean_up=clean_up, **declared)
    async def run(ctx: RunContext) -> None:
        async with remote.used():
            await RemoteRun(ctx, remote, timeouts, run.retry).run()

    return run


def _card(place: Place, timeout: float, *, is_needed: bool) -> Json:
    try:
        return json_of(read_card(place, timeout))
    except Exception as error:
        if is_needed:
            raise Misdeclared(f"the card of {place.url} can't be read: {error}") from error
        _log.warning(
            "could not read the agent card of %s; serving the agent without it: %s",
            place.url,
            error,
        )
        return {}
