"""An outside agent, by its URL, as an agent of the fleet."""

import logging
from collections.abc import Mapping
from typing import Any, Unpack

from headrace.model.events import Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.context import RunContext
from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import Misdeclared, Retryable
from headrace_worker.adapters.a2a_json import json_of
from headrace_worker.adapters.cards import name_of, taken_over
from headrace_worker.adapters.credentials import AccessRefused, Credentials
from headrace_worker.adapters.declaring import ANY_MEDIA, Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.remote_client import BINDINGS, Place, Remote, read_card
from headrace_worker.adapters.remote_run import (
    UNAUTHORIZED,
    RemoteRun,
    Timeouts,
    raise_if_passing,
    remote_of,
    status_of,
)

with needs("a2a"):
    import httpx
    from a2a.utils.errors import A2AError


async def cancel_left(ended: EndedTask, remote: Remote) -> None:
    """Cancel the outside agent's task that `ended` stood for, unless that is over.

    Raises:
        Retryable: the agent is busy or out of reach, or wants a fresh token.
    """
    task, _ = remote_of(ended.told)
    if not task:
        return
    try:
        await remote.cancel(task)
    except (A2AError, httpx.HTTPError, AccessRefused) as error:
        credentials = remote.place.credentials
        if status_of(error) == UNAUTHORIZED and credentials is not None:
            credentials.forget()
            raise Retryable("the outside agent refused the token") from error
        raise_if_passing(error)
        _log.info("task %s: %s could not be canceled: %s", ended.key.task, task, error)


_log = logging.getLogger(__name__)


def remote_agent(  # noqa: PLR0913  # what such an agent can be told
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
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of the A2A agent at `url`, below which its card lies.

    The card is read at once, for `card_timeout` seconds (0: it is not read): names, description,
    version, skills and media types are taken over where they are not given here. With a `name`, it
    is served also while its card can't be read. `binding` is ``JSONRPC``, ``HTTP+JSON`` or
    ``GRPC``; without one the card's first that is any of these. `credentials` are an `ApiKey`, a
    `Bearer` or `ClientCredentials`; `headers` go into each request too.

    A stream that is silent for `silence` seconds is opened anew; a task that is out of reach for
    `reconnecting` seconds is left for another attempt, which follows it again instead of asking
    again. For credentials that it asks for, its user has `auth_timeout` seconds. An agent that
    does not stream is asked every `poll` seconds. The other keywords are `agent`'s.

    Raises:
        Misdeclared: the card can't be read and there is no `name`, the binding is none, or as
            `agent`.
    """
    bindings = (binding,) if binding else BINDINGS
    if not set(bindings) <= set(BINDINGS):
        raise Misdeclared(f"the binding {binding!r} is none of {', '.join(BINDINGS)}")
    place = Place(
        url.rstrip("/"),
        bindings,
        credentials,
        headers or {},
        connect_timeout,
        silence,
        secure_grpc,
    )
    card = _card(place, card_timeout, is_needed=not name) if card_timeout > 0 else {}
    told: Any = {"input_modes": ANY_MEDIA, **taken_over(card), **declared}
    remote, timeouts = Remote(place), Timeouts(reconnecting, auth_timeout, poll)

    async def clean_up(ended: EndedTask) -> None:
        async with remote.used():
            await cancel_left(ended, remote)

    @agent(name=name or name_of(card), clean_up=clean_up, **told)
    async def run(ctx: RunContext) -> None:
        async with remote.used():
            await RemoteRun(ctx, remote, timeouts).run()

    return run


def _card(place: Place, timeout: float, *, is_needed: bool) -> Json:
    try:
        return json_of(read_card(place, timeout))
    except Exception as error:
        if is_needed:
            raise Misdeclared(f"the card of {place.url} can't be read: {error}") from error
        _log.warning("the agent card of %s can't be read; serving without it: %s", place.url, error)
        return {}
