"""The fleet's state: once, or its changes about every second."""

import asyncio
import logging
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model import json_text
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json, timestamp
from headrace_gateway.call import caller_of, check_unchanged
from headrace_gateway.changes import Batch, Changes
from headrace_gateway.fleet_sample import EVERY, Sample
from headrace_gateway.protocols.fleet.parameters import wants_events
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.development import is_development
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.public_url import public_url
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream

PATH = "/v1/fleet"
_OF_OWNERS = (
    "SendMessage",
    "GetTask",
    "ListTasks",
    "SubscribeToTask",
    "CancelTask",
    "DeleteTask",
    "ForkTask",
)
"""Operations on a caller's own tasks that pages offer; its roles decide on each."""

OPERATION = "GetFleet"

_log = logging.getLogger(__name__)


class FleetState:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Show the fleet of `services`."""
        self._services = services
        self._changes = Changes[Sample]("fleet", 1, self._sample)

    async def read(self, request: Request) -> ASGIApp:
        """Return the fleet's state, or the stream of its changes if the client accepts events."""
        services, caller = self._services, caller_of(self._services, request)
        operates = await services.access.check_anyone(caller, OPERATION)
        view = _FleetView(
            services, caller, public_url(request, services.settings), operates=operates
        )
        if not wants_events(request):
            content = view.of(await self._services.fleet_sampler.sample())
            return json_response(content, headers=NO_STORE)

        async def opening() -> ASGIApp:
            changes = self._changes
            # Nobody has refreshed the kept sample since the last watcher left: wait for the next.
            after = 0 if changes.is_watched else changes.head
            renderer = _FleetRenderer(view, request.headers)
            return HttpStream(services.subscriptions, changes.held(), after, renderer)

        return await services.stream_limits.with_permit(caller, opening)

    async def _sample(self) -> None:
        """Sample while there are watchers."""
        while True:
            try:
                self._changes.append(await self._services.fleet_sampler.sample())
            except BusUnavailable as error:
                _log.info("can't sample the fleet: %s", error)
            await asyncio.sleep(EVERY)


class _FleetView:
    """The part of a sample that one caller may see."""

    def __init__(self, services: Services, caller: Caller, base: str, *, operates: bool) -> None:
        self._services, self._caller, self._base = services, caller, base
        self._operates = operates

    def of(self, sample: Sample) -> Json:
        """Return the part of `sample` that the caller may see."""
        found: Json = {
            "at": timestamp(sample.at, "auto"),
            "agents": self._agents(sample),
            "operations": [one for one in _OF_OWNERS if self._caller.may_somewhere(one)],
        }
        if not self._operates:
            return found
        tenant = self._caller.tenant
        if is_development(self._services.settings):
            found["development"] = True
        return {
            **found,
            "workers": sample.workers,
            "queues": [one.shown() for one in sample.queues if one.tenant == tenant],
            "ranges": sample.ranges,
            "streams": sample.streams,
            "gateway": sample.gateway,
            "rates": sample.rates,
        }

    def check(self, headers: Headers) -> None:
        """Check the caller's permissions again, because the stream has no end.

        Raises:
            CredentialsRefused, NotPermitted: as `check_unchanged`.
        """
        check_unchanged(self._services, headers, self._caller)

    def _agents(self, sample: Sample) -> list[Json]:
        directory = self._services.directory
        return [
            {
                "name": card.name,
                "title": card.title,
                "description": card.description,
                "available": directory.available(card.name),
                "card": f"{self._base}/v1/agents/{card.name}/.well-known/agent-card.json",
                **({"workers": _serving(sample, card.name)} if self._operates else {}),
            }
            for card in directory.cards()
            if self._operates or self._caller.may(card.name, "SendMessage")
        ]


def _serving(sample: Sample, agent: str) -> list[str]:
    return [worker["id"] for worker in sample.workers if agent in worker["agents"]]


class _FleetRenderer(Renderer):
    """The whole state first, then what has changed since the client was sent something."""

    __slots__ = ("_headers", "_sent", "_view")

    def __init__(self, view: _FleetView, headers: Headers) -> None:
        self._view, self._headers = view, headers
        self._sent: Json = {}

    def render(self, blocks: Sequence[Batch[Sample]], after: int) -> Messages:  # noqa: ARG002
        """Return one event for the newest sample; a slow client skips those between.

        Raises:
            CredentialsRefused: the credentials have been withdrawn.
            NotPermitted: their permissions have changed.
        """
        self._view.check(self._headers)
        now = self._view.of(blocks[-1].items[-1])
        name = b"change" if self._sent else b"fleet"
        changed = {key: value for key, value in now.items() if self._sent.get(key) != value}
        self._sent = now
        return (b"event: %b\ndata: %b\n\n" % (name, json_text.encode(changed)),)

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002
        """Return False: a fleet has no end."""
        return False
