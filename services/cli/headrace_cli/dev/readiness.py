"""When the development stack is ready: gateways serve, task state answers, agents are there."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from headrace_cli.failures import CannotStart

_PAUSE = 0.1
_TIMEOUT = 1.0


async def _pause() -> None:
    await asyncio.sleep(_PAUSE)


async def until_ready(
    gateways: Sequence[str],
    *,
    with_agents: bool,
    timeout: float,
    pause: Callable[[], Awaitable[None]] = _pause,
) -> None:
    """Return when every one of `gateways` (their URLs) serves, and all of them the same agents.

    A worker announces one agent after the other, so the agents count once they are the same twice.
    The gateways are asked again after each `pause`.

    Raises:
        CannotStart: not ready within `timeout` seconds; the message names what is missing.
    """
    views, missing = list[_GatewayView](), ""
    try:
        async with asyncio.timeout(timeout):
            while True:
                before = views
                asking = (
                    asyncio.to_thread(_view, url, with_agents=with_agents) for url in gateways
                )
                views = await asyncio.gather(*asking)
                missing = next((view.missing for view in views if view.missing), "")
                if not missing and views == before and len({view.agents for view in views}) == 1:
                    return
                await pause()
    except TimeoutError:
        missing = missing or "the gateways to agree on the agents"
        raise CannotStart(f"not ready after {timeout:.0f} s; still waiting for {missing}") from None


_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.BAD_REQUEST)
"""Answers to requests without credentials, or without an extension that the agent requires."""


@dataclass(frozen=True, slots=True)
class _GatewayView:
    """The state of the stack, according to one gateway."""

    agents: tuple[str, ...] = ()
    missing: str = ""
    """What the gateway lacks to serve; empty: nothing."""


def _view(gateway: str, *, with_agents: bool) -> _GatewayView:
    status, body = _get(gateway, "/readyz")
    if status != HTTPStatus.OK:
        return _GatewayView(missing=f"{gateway}/readyz")
    if not with_agents:
        return _GatewayView()
    ready = _GatewayView(missing="" if b'"taskState":true' in body else "task state")
    status, body = _get(gateway, "/v1/agents")
    if status == HTTPStatus.UNAUTHORIZED:
        return ready  # no access to the list of agents
    agents = _available(body)
    if not agents:
        return _GatewayView(missing=f"an agent at {gateway}/v1/agents")
    # Only an answer proves that task state is applying: without it a gateway is ready, but
    # degraded.
    status, _ = _get(gateway, f"/v1/agents/{agents[0]}/tasks?pageSize=1")
    if status in _REFUSALS:
        return replace(ready, agents=agents)
    return _GatewayView(agents, "" if status == HTTPStatus.OK else "task state")


def _available(body: bytes) -> tuple[str, ...]:
    try:
        return tuple(a["id"] for a in json.loads(body)["agents"] if a["available"])
    except (ValueError, LookupError, TypeError):
        return ()


def _get(gateway: str, path: str) -> tuple[int, bytes]:
    """Return status and body; status 0 if the gateway does not answer."""
    where = urlsplit(gateway)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers={"A2A-Version": "1.0"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()
