"""When the development stack serves: gateways are ready, task state answers, agents are there."""

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from headrace_cli.failures import CannotStart

_PAUSE = 0.1
_PATIENCE = 1.0


async def until_ready(gateways: Sequence[str], *, with_agents: bool, timeout: float) -> None:
    """Return when every one of `gateways` (their URLs) serves.

    Raises:
        CannotStart: `timeout` seconds were not enough; says what was still missing.
    """
    waiting_for = "the gateways"
    try:
        async with asyncio.timeout(timeout):
            for gateway in gateways:
                while missing := await asyncio.to_thread(
                    _missing, gateway, with_agents=with_agents
                ):
                    waiting_for = f"{gateway}: {missing}"
                    await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise CannotStart(
            f"not ready after {timeout:.0f} s; still waiting for {waiting_for}"
        ) from None


def _missing(gateway: str, *, with_agents: bool) -> str:
    """Return what keeps `gateway` from serving; empty if nothing does."""
    status, body = _get(gateway, "/readyz")
    if status != HTTPStatus.OK:
        return "/readyz to answer 200"
    if not with_agents:
        return ""
    _, body = _get(gateway, "/v1/agents")
    available = _available(body)
    if not available:
        return "an agent"
    # Only an answer proves that task state follows: without it a gateway is ready, but degraded.
    status, _ = _get(gateway, f"/v1/agents/{available[0]}/tasks?pageSize=1")
    return "" if status == HTTPStatus.OK else "task state"


def _available(body: bytes) -> list[str]:
    try:
        return [agent["name"] for agent in json.loads(body)["agents"] if agent["available"]]
    except (ValueError, LookupError, TypeError):
        return []


def _get(gateway: str, path: str) -> tuple[int, bytes]:
    """Return status and body; status 0 if nobody answers."""
    where = urlsplit(gateway)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=_PATIENCE)
    try:
        connection.request("GET", path, headers={"A2A-Version": "1.0"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()
