"""Liveness and readiness of the process."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.jetstream.connection import Bus
from headrace.model import json_text
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace_gateway.server.json_response import NO_STORE, json_response

_TIMEOUT = 1.0


class Health:
    """Answers ``/healthz`` and ``/readyz``."""

    def __init__(self, bus: Bus, trouble: Callable[[], str]) -> None:
        """Report the health of this gateway and its dependencies.

        `trouble` tells what keeps messages from being stored; empty: nothing.
        """
        self._bus, self._trouble = bus, trouble

    def routes(self) -> list[Route]:
        """Return both routes."""
        return [Route("/healthz", healthy), Route("/readyz", self._ready)]

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002 - a route
        """Answer 200 while NATS answers.

        Without task state a gateway can still accept and stream tasks, and while the log stores
        nothing it can still serve what is stored: it is degraded, but ready.
        """
        reached = self._bus.answers
        answer = await self._task_state() if reached else {}
        follows = bool(answer.get("following"))
        trouble = self._trouble()
        is_whole = follows and not trouble
        status = "ready" if is_whole else "degraded" if reached else "unavailable"
        content = {"status": status, "nats": reached, "taskState": follows}
        if notes := [note for note in (trouble, answer.get("note")) if note]:
            content["note"] = "; ".join(map(str, notes))
        return json_response(content, 200 if reached else 503, NO_STORE)

    async def _task_state(self) -> Json:
        """Return task state's answer; empty if it has none."""
        try:
            answer = await self._bus.request(self._bus.subjects.state("ready"), b"", _TIMEOUT)
            found = json_text.decode(answer.data)
        except (BusUnavailable, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


async def healthy(request: Request) -> Response:  # noqa: ARG001 - a route
    """Answer 200: the process is running."""
    return json_response({"status": "ok"}, headers=NO_STORE)
